package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// counted notes the writes of a reconciler.
type counted struct{ writes []string }

func (c *counted) between(direct client.WithWatch) client.Client {
	return interceptor.NewClient(direct, interceptor.Funcs{
		Apply: func(ctx context.Context, next client.WithWatch, object runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			c.writes = append(c.writes, "apply")
			return next.Apply(ctx, object, opts...)
		},
		Delete: func(ctx context.Context, next client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			c.writes = append(c.writes, "delete "+object.GetName())
			return next.Delete(ctx, object, opts...)
		},
		SubResourcePatch: func(ctx context.Context, next client.Client, sub string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			c.writes = append(c.writes, sub+" "+object.GetName())
			return next.SubResource(sub).Patch(ctx, object, patch, opts...)
		},
	})
}

func TestSecondReconcileWritesNothing(t *testing.T) {
	count := &counted{}
	f := newFixture(t, count.between)
	f.newPolicy(t, "checkout", "checkout")
	f.expectReconciled(t)
	if want := []string{"apply", "status checkout"}; !slices.Equal(count.writes, want) {
		t.Errorf("the first reconcile wrote %v, want %v", count.writes, want)
	}
	count.writes = nil
	f.expectReconciled(t)
	if len(count.writes) != 0 {
		t.Errorf("the second reconcile wrote %v", count.writes)
	}
}

func TestNamespaceWithoutPoliciesCostsNoWrite(t *testing.T) {
	count := &counted{}
	f := newFixture(t, count.between)
	if result := f.expectReconciled(t); result.RequeueAfter != 0 || len(count.writes) != 0 {
		t.Errorf("result %v, writes %v", result, count.writes)
	}
}

// TestStaleCacheMakesNoSecondDocument: O06. The names are fixed and the writes
// idempotent, so that a cache that lags behind does no harm.
func TestStaleCacheMakesNoSecondDocument(t *testing.T) {
	f := newFixture(t, func(direct client.WithWatch) client.Client {
		return interceptor.NewClient(direct, interceptor.Funcs{
			List: func(ctx context.Context, next client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, documents := list.(*corev1.ConfigMapList); documents {
					return nil
				}
				return next.List(ctx, list, opts...)
			},
		})
	})
	f.newPolicy(t, "checkout", "checkout")
	f.expectReconciled(t)
	first := f.configMap(t, "timeouts-checkout")
	f.expectReconciled(t)
	if second := f.configMap(t, "timeouts-checkout"); second.ResourceVersion != first.ResourceVersion {
		t.Error("the document was written again")
	}
	var all corev1.ConfigMapList
	if err := f.users.List(t.Context(), &all, client.InNamespace(f.namespace), client.MatchingLabels(managedBy())); err != nil || len(all.Items) != 1 {
		t.Errorf("%d documents, %v", len(all.Items), err)
	}
}

func TestFailedDocumentIsOnItsPolicysStatusAndTheOthersAreWritten(t *testing.T) {
	broken := errors.New("the disk is full")
	f := newFixture(t, func(direct client.WithWatch) client.Client {
		return interceptor.NewClient(direct, interceptor.Funcs{
			Apply: func(ctx context.Context, next client.WithWatch, object runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				if strings.Contains(fmt.Sprint(*object.(interface{ GetName() *string }).GetName()), "first") {
					return broken
				}
				return next.Apply(ctx, object, opts...)
			},
		})
	})
	f.newPolicy(t, "first", "first")
	f.newPolicy(t, "second", "second")
	if _, err := f.reconcile(t); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	f.configMap(t, "timeouts-second")
	failed := meta.FindStatusCondition(f.status(t, "first").Conditions, v1alpha1.ConditionProgrammed)
	if failed == nil || failed.Status != metav1.ConditionFalse || failed.Reason != v1alpha1.ReasonRenderFailed || !strings.Contains(failed.Message, broken.Error()) {
		t.Errorf("first: %+v", failed)
	}
	if !meta.IsStatusConditionTrue(f.status(t, "second").Conditions, v1alpha1.ConditionProgrammed) {
		t.Errorf("second: %+v", f.status(t, "second").Conditions)
	}
}

func TestEventsFollowTheStatusThatWasWritten(t *testing.T) {
	broken := errors.New("no status today")
	fail := true
	f := newFixture(t, func(direct client.WithWatch) client.Client {
		return interceptor.NewClient(direct, interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, next client.Client, sub string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				if fail && object.GetName() == "first" {
					return broken
				}
				return next.SubResource(sub).Patch(ctx, object, patch, opts...)
			},
		})
	})
	f.newPolicy(t, "first", "first")
	f.newPolicy(t, "second", "second")
	if _, err := f.reconcile(t); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	if len(f.events.reasons["first"]) != 0 || len(f.events.reasons["second"]) != 1 {
		t.Errorf("events are %v", f.events.reasons)
	}
	fail = false
	f.expectReconciled(t)
	f.expectReconciled(t)
	if len(f.events.reasons["first"]) != 1 || len(f.events.reasons["second"]) != 1 {
		t.Errorf("events are %v", f.events.reasons)
	}
}

// TestNamespaceThatEndsMeanwhileIsNoError: O08, between the look and the write.
func TestNamespaceThatEndsMeanwhileIsNoError(t *testing.T) {
	f := newFixture(t, func(direct client.WithWatch) client.Client {
		return interceptor.NewClient(direct, interceptor.Funcs{
			Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				err := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "timeouts-checkout", errors.New("the namespace is being terminated"))
				err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
				return err
			},
		})
	})
	f.newPolicy(t, "checkout", "checkout")
	f.expectReconciled(t)
}

// TestStatusOfAPolicyThatWasMadeAnewIsNotWritten: the status belongs to the object
// that was planned for.
func TestStatusOfAPolicyThatWasMadeAnewIsNotWritten(t *testing.T) {
	var f *fixture
	f = newFixture(t, func(direct client.WithWatch) client.Client {
		return interceptor.NewClient(direct, interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, next client.Client, sub string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				old := &v1alpha1.TimeoutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: object.GetName()}}
				if err := f.users.Delete(ctx, old); err != nil {
					return err
				}
				f.newPolicy(t, object.GetName(), "checkout")
				return next.SubResource(sub).Patch(ctx, object, patch, opts...)
			},
		})
	})
	f.newPolicy(t, "checkout", "checkout")
	f.expectReconciled(t)
	if status := f.status(t, "checkout"); len(status.Conditions) != 0 {
		t.Errorf("the new policy has the status of the old one: %+v", status)
	}
	if len(f.events.reasons) != 0 {
		t.Errorf("events are %v", f.events.reasons)
	}
}

func TestEndOfTheProcessIsNoError(t *testing.T) {
	f := newFixture(t)
	f.newPolicy(t, "checkout", "checkout")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: f.namespace}}); err != nil {
		t.Errorf("the error is %v", err)
	}
}

// The cache is waited for by reads of what was written, object by object, and not
// by lists, which would wait for the writes in all other namespaces.
func TestAReconcileWaitsForItsOwnWritesOnly(t *testing.T) {
	var waited []string
	f := newFixture(t, func(direct client.WithWatch) client.Client {
		return interceptor.NewClient(direct, interceptor.Funcs{
			Get: func(ctx context.Context, next client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
				waited = append(waited, fmt.Sprintf("%T %s", object, key.Name))
				return next.Get(ctx, key, object, opts...)
			},
			List: func(ctx context.Context, next client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				_, policies := list.(*storedPolicyList)
				_, documents := list.(*corev1.ConfigMapList)
				if (policies || documents) && !(&client.ListOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency {
					t.Errorf("%T is listed consistently", list)
				}
				return next.List(ctx, list, opts...)
			},
		})
	})
	f.newPolicy(t, "first", "checkout")
	f.newPolicy(t, "second", "checkout")
	f.expectReconciled(t)
	if len(waited) != 0 {
		t.Errorf("the first reconcile waited for %v", waited)
	}
	f.expectReconciled(t)
	want := []string{"*v1.ConfigMap timeouts-checkout", "*controllers.storedPolicy first", "*controllers.storedPolicy second"}
	if !slices.Equal(waited, want) {
		t.Errorf("the second waited for %v, want %v", waited, want)
	}
	waited = nil
	f.expectReconciled(t)
	if len(waited) != 0 {
		t.Errorf("the third wrote nothing before it, and waited for %v", waited)
	}
}
