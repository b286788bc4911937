package kubesource

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

const (
	// requestTimeout bounds a list, and the time until a watch is accepted.
	requestTimeout = 10 * time.Second
	// dialTimeout bounds a connection's coming about.
	dialTimeout = 3 * time.Second
	// maxAnswer bounds the answer to a list of one ConfigMap, which etcd bounds to
	// about 1.5 MiB, and each event of a watch.
	maxAnswer = 8 << 20
	// pingAfter without a sign of life makes an HTTP/2 connection ask for one;
	// without an answer in the same time it is closed.
	pingAfter = 15 * time.Second
)

// silent keeps client-go from logging: what it would say is in the update.
var silent = logr.Discard()

// The types that requests need, and no others: the scheme of client-go would
// link every API there is.
var (
	codecs    serializer.CodecFactory
	parameter runtime.ParameterCodec
)

func init() {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.ConfigMap{}, &corev1.ConfigMapList{})
	codecs, parameter = serializer.NewCodecFactory(scheme), runtime.NewParameterCodec(scheme)
}

// sessions hands out the session that the watches of a source share, until one
// of them finds it spent: then the next ones get another, and it ends with its
// last watch. Ending the others' watches at once would make each of them doubt
// the session that it gets next.
type sessions struct {
	config *rest.Config

	mu      sync.Mutex
	current *session
}

// try finds out whether the configuration can be used at all.
func (s *sessions) try() error {
	session, err := openSession(s.config, false)
	if err == nil {
		session.close()
	}
	return err
}

// get returns the session, a new one if there is none. Each is given back.
func (s *sessions) get() (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		current, err := openSession(s.config, false)
		if err != nil {
			return nil, err
		}
		s.current = current
	}
	s.current.users++
	return s.current, nil
}

// give takes a session back. After a spent one, the next has new connections,
// and reads the CA bundle and the token anew.
func (s *sessions) give(back *session, spent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	back.users--
	if spent && s.current == back {
		s.current = nil
	}
	if back.users == 0 && s.current != back {
		back.close()
	}
}

// close ends the session that nobody uses any more.
func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		s.current.close()
	}
}

// session is a client of the API server with connections of its own.
type session struct {
	client    *rest.RESTClient
	transport *http.Transport
	users     int // guarded by the sessions' lock
	dial      func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
}

// openSession makes a session; a brief one is for a single request. client-go
// shares connections between all clients of a process, and a stalled one would
// take the read that is to find that out with it.
func openSession(config *rest.Config, brief bool) (*session, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = codecs.WithoutConversion()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.QPS, config.RateLimiter, config.Timeout = -1, nil, 0
	config.WarningHandler = rest.NoWarnings{}
	if config.UserAgent == "" {
		config.UserAgent = "timeouts-clientlib/kubesource"
	}
	s := &session{conns: map[*conn]struct{}{}, dial: config.Dial}
	if s.dial == nil {
		s.dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: pingAfter}).DialContext
	}
	base, err := s.base(config, brief)
	if err != nil {
		return nil, err
	}
	wrapped, err := rest.HTTPWrappersForConfig(config, base)
	if err != nil {
		return nil, err
	}
	s.client, err = rest.RESTClientForConfigAndClient(config, &http.Client{Transport: bounded{wrapped}, CheckRedirect: checkRedirect})
	return s, err
}

// checkRedirect keeps the token where it belongs: what adds it to requests adds it
// to redirected ones too, whatever their host.
func checkRedirect(to *http.Request, via []*http.Request) error {
	const most = 10
	switch from := via[0].URL; {
	case to.URL.Scheme != from.Scheme || to.URL.Host != from.Host:
		return fmt.Errorf("the API server redirects to %s://%s, and the token is not for others: name the right server in the configuration", to.URL.Scheme, to.URL.Host)
	case len(via) >= most:
		return fmt.Errorf("the API server redirects more than %d times", most)
	}
	return nil
}

// bounded keeps an answer from being read beyond maxAnswer, of a watch without
// an event between; client-go would read whatever comes.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		left, ok := r.Context().Value(leftKey{}).(*atomic.Int64)
		if !ok {
			left = newLeft()
		}
		response.Body = &boundedBody{response.Body, left}
	}
	return response, err
}

// leftKey is where the context of a request has how much of its answer may be
// read yet, for who may raise that; an *atomic.Int64.
type leftKey struct{}

func newLeft() *atomic.Int64 {
	left := &atomic.Int64{}
	left.Store(maxAnswer)
	return left
}

type boundedBody struct {
	io.ReadCloser
	left *atomic.Int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	left := b.left.Load()
	if left <= 0 {
		return 0, errLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), left)])
	b.left.Add(int64(-n))
	return n, err
}

var errLarge = fmt.Errorf("the answer has more than %d MiB, which no ConfigMap has", maxAnswer>>20)

func (s *session) base(config *rest.Config, brief bool) (http.RoundTripper, error) {
	if config.Transport != nil {
		return config.Transport, nil
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	s.transport = &http.Transport{
		Proxy:               proxy,
		DialContext:         s.dialTracked,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: requestTimeout,
		DisableKeepAlives:   brief,
		DisableCompression:  config.DisableCompression,
		ForceAttemptHTTP2:   !brief,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
		IdleConnTimeout:     90 * time.Second,
	}
	return s.transport, nil
}

func (s *session) dialTracked(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := s.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, session: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		raw.Close()
		return nil, net.ErrClosed
	}
	s.conns[c] = struct{}{}
	return c, nil
}

// close ends the session and every connection of it.
func (s *session) close() {
	s.mu.Lock()
	s.closed = true
	open := s.conns
	s.conns = nil
	s.mu.Unlock()
	for c := range open {
		c.Conn.Close()
	}
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
}

// conn is a connection that its session knows of.
type conn struct {
	net.Conn
	session *session
}

func (c *conn) Close() error {
	c.session.mu.Lock()
	delete(c.session.conns, c)
	c.session.mu.Unlock()
	return c.Conn.Close()
}
