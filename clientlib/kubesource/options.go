package kubesource

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/timeout-operator/timeout-operator/clientlib/clock"
)

// The limits of what can be set.
const (
	// DefaultCheck is the mean time between two plain reads beside a watch.
	DefaultCheck = 5 * time.Minute
	// MaxCheck is the longest such time.
	MaxCheck = 10 * time.Minute
	// DefaultMaxBackoff bounds the time between two attempts while the API
	// server cannot be reached.
	DefaultMaxBackoff = 15 * time.Second
	// DefaultMaxDeniedBackoff is the same while it refuses.
	DefaultMaxDeniedBackoff = time.Minute
)

// namespaceFile tells a pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Option changes how [New] looks. What is wrong with one is told by Run.
type Option func(*options)

type options struct {
	config           *rest.Config
	namespace        string
	check            time.Duration
	maxBackoff       time.Duration
	maxDeniedBackoff time.Duration
	grace            time.Duration // how long attempts fail before that is told
	clock            clock.Clock
	errs             []error
}

// WithConfig says how the API server is reached; the default is
// rest.InClusterConfig. The configuration is copied. Its rate limit is not used,
// since the source has a pace of its own, and neither is its Timeout.
func WithConfig(c *rest.Config) Option {
	return func(o *options) {
		if c == nil {
			o.errs = append(o.errs, errors.New("WithConfig: the configuration is nil"))
			return
		}
		o.config = rest.CopyConfig(c)
	}
}

// WithNamespace says where the ConfigMaps are; the default is the namespace of
// the pod, from POD_NAMESPACE or what Kubernetes mounts beside the token.
func WithNamespace(namespace string) Option {
	return func(o *options) { o.namespace = namespace }
}

// WithCheck sets the mean time between two plain reads, which find out whether
// a watch has stalled in silence. Each takes a fifth more or less. The default
// is [DefaultCheck], the most is [MaxCheck].
func WithCheck(d time.Duration) Option {
	return func(o *options) {
		if d <= 0 || d > MaxCheck {
			o.errs = append(o.errs, fmt.Errorf("WithCheck: %s is not between 0 and %s", d, MaxCheck))
		}
		o.check = d
	}
}

// WithMaxBackoff bounds the time between two attempts: while the API server
// cannot be reached, and while it refuses (401, 403). The times begin with a
// quarter of a second and a second, double each time up to the bound, and are
// shortened at random by up to a half. While the server cannot be reached they
// stay below four seconds, or a quarter of the outage where that is more; while
// it refuses both ConfigMaps, these take turns, so that rights are noticed in half
// of the time. The longer the bounds, the gentler to a server that comes back, and
// the later the newest policy after that. The defaults are [DefaultMaxBackoff] and
// [DefaultMaxDeniedBackoff].
func WithMaxBackoff(unreachable, denied time.Duration) Option {
	return func(o *options) {
		if unreachable < initialBackoff || denied < initialDeniedBackoff {
			o.errs = append(o.errs, fmt.Errorf("WithMaxBackoff: %s and %s are less than the first waits, %s and %s", unreachable, denied, initialBackoff, initialDeniedBackoff))
		}
		o.maxBackoff, o.maxDeniedBackoff = unreachable, denied
	}
}

// WithClock sets the clock of all waits; the default is clock.System.
func WithClock(c clock.Clock) Option { return func(o *options) { o.clock = c } }

// complete fills in what was not said. It is called by each Run, since the
// files of a pod may change.
func (o options) complete() (options, error) {
	if err := errors.Join(o.errs...); err != nil {
		return o, err
	}
	if o.config == nil {
		config, err := rest.InClusterConfig()
		if err != nil {
			return o, fmt.Errorf("find the API server: %w; outside of a pod say it by WithConfig", err)
		}
		o.config = config
	}
	if o.namespace == "" {
		o.namespace = os.Getenv("POD_NAMESPACE")
	}
	if o.namespace == "" {
		data, err := os.ReadFile(namespaceFile)
		if err != nil {
			return o, fmt.Errorf("find the namespace: %w; set POD_NAMESPACE or say it by WithNamespace", err)
		}
		o.namespace = strings.TrimSpace(string(data))
	}
	return o, nil
}
