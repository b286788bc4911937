package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/internal/operator"
)

// elected turns leader election on, with times for impatient people.
func elected(o *operator.Options) {
	o.LeaderElection = operator.LeaderElection{
		Enabled: true, Namespace: systemNamespace,
		LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
	}
}

// faultyLease can break the renewals of one operator.
type faultyLease struct{ broken atomic.Bool }

func (l *faultyLease) install(o *operator.Options) {
	config := o.Config
	o.Config = func() (*rest.Config, error) {
		c, err := config()
		if err != nil {
			return nil, err
		}
		c.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if l.broken.Load() && isLease(r) {
					return nil, errors.New("the lease is out of reach")
				}
				return next.RoundTrip(r)
			})
		})
		return c, nil
	}
}

func isLease(r *http.Request) bool {
	return r.URL.Path == "/apis/coordination.k8s.io/v1/namespaces/"+systemNamespace+"/leases/"+operator.LeaseName
}

// leaseHolder is who leads; empty when nobody does.
func leaseHolder() (string, error) {
	lease := &coordinationv1.Lease{}
	err := shared.client.Get(context.Background(), client.ObjectKey{Namespace: systemNamespace, Name: operator.LeaseName}, lease)
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", client.IgnoreNotFound(err)
	}
	return *lease.Spec.HolderIdentity, nil
}

func expectLeader(t *testing.T) string {
	t.Helper()
	holder := ""
	eventually(t, func() error {
		var err error
		if holder, err = leaseHolder(); err == nil && holder == "" {
			err = errors.New("nobody leads")
		}
		return err
	})
	return holder
}

// TestLostLeaseEndsTheProcess: O31, O32. The leader whose renewals fail ends, the
// standby, which was ready all the time, takes over, and what both wrote is the
// same.
func TestLostLeaseEndsTheProcess(t *testing.T) {
	lease := &faultyLease{}
	leader := shared.startReady(t, elected, lease.install)
	first := expectLeader(t)
	standby := shared.startReady(t, elected)
	namespace := shared.newNamespace(t)
	policy := newPolicy(namespace, "checkout")
	shared.create(t, policy)
	shared.expectProgrammed(t, policy)
	before := shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "1s"))
	if writes := standby.requests.writes("/configmaps/"); len(writes) != 0 {
		t.Errorf("the standby wrote %v", writes)
	}

	lease.broken.Store(true)
	broken := time.Now()
	<-leader.done
	t.Logf("measured: from the first failed renewal (deadline 2s) to the end of the process %s", time.Since(broken).Round(time.Millisecond))
	if !errors.Is(leader.err, operator.ErrManager) {
		t.Errorf("it ended with %v", leader.err)
	}
	eventually(t, func() error {
		if second, err := leaseHolder(); err != nil || second == first || second == "" {
			return fmt.Errorf("the lease is held by %q, %v", second, err)
		}
		return nil
	})
	standby.eventuallyReady(t)
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("2s") })
	shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "2s"))
	edit(t, shared, policy, func(p *v1alpha1.TimeoutPolicy) { p.Spec.Upstreams[0].Timeouts.Total = duration("1s") })
	after := shared.expectDocument(t, namespace, "timeouts-checkout", total("orders", "1s"))
	if len(before.Data) != len(after.Data) {
		t.Errorf("before %v, after %v", before.Data, after.Data)
	}
}

// TestStoppedLeaderHandsOver: a clean stop gives the lease back at once.
func TestStoppedLeaderHandsOver(t *testing.T) {
	p := shared.startReady(t, elected)
	expectLeader(t)
	p.end(t)
	if holder, err := leaseHolder(); err != nil || holder != "" {
		t.Errorf("the lease is held by %q, %v", holder, err)
	}
	if noise := p.lines.with("level=ERROR"); len(noise) != 0 {
		t.Errorf("logged as errors: %v", noise)
	}
}

// TestStolenLeaseIsWonBack: O32. Whoever takes the lease and vanishes is followed
// by somebody.
func TestStolenLeaseIsWonBack(t *testing.T) {
	p := shared.startReady(t, elected)
	expectLeader(t)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: operator.LeaseName}}
	edit(t, shared, lease, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("a thief") })
	<-p.done
	next := shared.startReady(t, elected)
	eventually(t, func() error {
		if holder, err := leaseHolder(); err != nil || holder == "a thief" || holder == "" {
			return fmt.Errorf("the lease is held by %q, %v", holder, err)
		}
		return nil
	})
	next.eventuallyReady(t)
}

func TestLeaderElectionOutsideOfAClusterNeedsANamespace(t *testing.T) {
	_, err := operator.New(operator.Options{
		Config:         func() (*rest.Config, error) { return nil, errors.New("not asked for") },
		LeaderElection: operator.LeaderElection{Enabled: true},
		Registry:       prometheus.NewRegistry(),
		Now:            time.Now,
	})
	if err == nil {
		t.Error("New says nothing")
	}
}
