package report

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
)

// The environment that fills what Options leave out.
const (
	// EnvPodName, EnvPodNamespace and EnvPodUID name the pod; they are set by
	// the downward API. What is missing is taken from the claims of the token.
	EnvPodName      = "POD_NAME"
	EnvPodNamespace = "POD_NAMESPACE"
	EnvPodUID       = "POD_UID"
	// EnvContainer is the name of the container. Without it the mounts that the
	// kubelet makes tell.
	EnvContainer = "TIMEOUTS_CONTAINER"
	// EnvServer is the URL of the API server; without it
	// KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT say where it is.
	EnvServer = "TIMEOUTS_API_SERVER"
	// EnvTokenFile and EnvCAFile stand in for the files that Kubernetes mounts
	// into every pod.
	EnvTokenFile = "TIMEOUTS_TOKEN_FILE"
	EnvCAFile    = "TIMEOUTS_CA_FILE"
	// EnvMaxDelay, a Go duration such as "1s", bounds FirstDelay, MinInterval
	// and Spread. It is for demonstrations: in a large cluster it takes away
	// what protects the API server.
	EnvMaxDelay = "TIMEOUTS_REPORT_MAX_DELAY"
)

const (
	secretsDir       = "/var/run/secrets/kubernetes.io/serviceaccount"
	defaultTokenFile = secretsDir + "/token"
	defaultCAFile    = secretsDir + "/ca.crt"
)

// ErrOff says that this process has nobody to report to, or nobody to report
// as: it does not run in a pod, or without a token.
var ErrOff = errors.New("reporting is off")

// Pod is whose report it is.
type Pod struct {
	Name      string
	Namespace string
	UID       string
}

// Options of a Reporter. The zero value is right in a pod.
type Options struct {
	// Pod; what is empty comes from the environment, then from the token.
	Pod Pod
	// Container of the pod that this process runs in; when empty, it comes from
	// the environment, then from the mounts. The containers of a pod share its
	// report, each with clients of its own. Where the name is unknown, and for
	// two processes of one container, the last one to write is heard alone.
	Container string
	// Library that reports; the default is this one.
	Library Library
	// Server is the URL of the API server, https only.
	Server string
	// TokenFile is read before each write, since tokens rotate.
	TokenFile string
	// CAFile is read before each write; where there is no such file the
	// system's roots hold.
	CAFile string
	// FirstDelay bounds the random delay before the first write; zero means 10s.
	FirstDelay time.Duration
	// MinInterval is the least time between two writes; zero means 10s.
	MinInterval time.Duration
	// Spread bounds the random delay after a change that the whole fleet sees
	// at once, such as a new document; zero means 30s.
	Spread time.Duration
	// MaxBackoff bounds the time between two attempts that fail; zero means
	// 10 minutes.
	MaxBackoff time.Duration
	// Logger gets one line when writing begins to fail, fails in another way,
	// or works again. Nil means none.
	Logger *slog.Logger
	// Clock for all of the above; nil means clock.System.
	Clock clock.Clock
	// Rand returns numbers in [0,1); nil means math/rand.
	Rand func() float64
	// Transport to the API server; nil means one of the reporter's own.
	Transport http.RoundTripper
}

// complete fills in the environment and the defaults. An error that is not
// ErrOff is a setting that cannot be used.
func (o Options) complete() (Options, error) {
	fallback(&o.Server, os.Getenv(EnvServer))
	if host := os.Getenv("KUBERNETES_SERVICE_HOST"); o.Server == "" && host != "" {
		port := os.Getenv("KUBERNETES_SERVICE_PORT")
		fallback(&port, "443")
		o.Server = "https://" + net.JoinHostPort(host, port)
	}
	if o.Server == "" {
		return o, fmt.Errorf("%w: this is not a pod (neither KUBERNETES_SERVICE_HOST nor %s is set)", ErrOff, EnvServer)
	}
	if u, err := url.Parse(o.Server); err != nil || u.Scheme != "https" || u.Host == "" {
		return o, fmt.Errorf("the API server %q is not an https URL, such as https://10.0.0.1:443", o.Server)
	}
	o.Server = strings.TrimRight(o.Server, "/")
	fallback(&o.TokenFile, os.Getenv(EnvTokenFile), defaultTokenFile)
	fallback(&o.CAFile, os.Getenv(EnvCAFile), defaultCAFile)
	if err := o.identify(); err != nil {
		return o, err
	}
	fallback(&o.Container, os.Getenv(EnvContainer), containerOf(readMounts))
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, o.completeDelays()
}

// identify finds out which pod this is.
func (o *Options) identify() error {
	token, err := readToken(o.TokenFile)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOff, err)
	}
	claimed := podOf(token)
	namespace, _ := readSmall(filepath.Join(filepath.Dir(o.TokenFile), "namespace"))
	fallback(&o.Pod.Name, os.Getenv(EnvPodName), claimed.Name)
	fallback(&o.Pod.Namespace, os.Getenv(EnvPodNamespace), claimed.Namespace, namespace)
	fallback(&o.Pod.UID, os.Getenv(EnvPodUID), claimed.UID)
	for _, f := range []struct{ value, env string }{
		{o.Pod.Name, EnvPodName}, {o.Pod.Namespace, EnvPodNamespace}, {o.Pod.UID, EnvPodUID},
	} {
		if f.value == "" {
			return fmt.Errorf("%w: the pod is unknown (%s is not set, and the token does not say)", ErrOff, f.env)
		}
	}
	return nil
}

func (o *Options) completeDelays() error {
	for _, d := range []struct {
		value   *time.Duration
		preset  time.Duration
		limited bool
	}{
		{&o.FirstDelay, 10 * time.Second, true},
		{&o.MinInterval, 10 * time.Second, true},
		{&o.Spread, 30 * time.Second, true},
		{&o.MaxBackoff, 10 * time.Minute, false},
	} {
		if *d.value <= 0 {
			*d.value = d.preset
		}
		text := os.Getenv(EnvMaxDelay)
		if text == "" || !d.limited {
			continue
		}
		limit, err := time.ParseDuration(text)
		if err != nil || limit <= 0 {
			return fmt.Errorf("%s=%q is not a positive duration, such as 1s", EnvMaxDelay, text)
		}
		*d.value = min(*d.value, limit)
	}
	return nil
}

// fallback sets an empty value to the first candidate that is not empty.
func fallback(value *string, candidates ...string) {
	for _, c := range candidates {
		if *value == "" {
			*value = c
		}
	}
}
