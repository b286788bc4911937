package integration

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestManagerPodIsAdmitted: the namespace enforces the restricted pod security
// standard, and the pod of the Deployment meets it.
func TestManagerPodIsAdmitted(t *testing.T) {
	deployment := &appsv1.Deployment{}
	if err := shared.client.Get(context.Background(), client.ObjectKey{Namespace: systemNamespace, Name: "timeout-operator"}, deployment); err != nil {
		t.Fatal(err)
	}
	pod := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "manager"}, Spec: *deployment.Spec.Template.Spec.DeepCopy()}
	}
	if err := shared.client.Create(context.Background(), pod(), client.DryRunAll); err != nil {
		t.Error(err)
	}
	lax := pod()
	lax.Spec.Containers[0].SecurityContext = nil
	if err := shared.client.Create(context.Background(), lax, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("the namespace enforces nothing: %v", err)
	}
}

// TestInstallingTwiceChangesNothing: kubectl apply -k is how people upgrade.
func TestInstallingTwiceChangesNothing(t *testing.T) {
	output, err := shared.kubectl("diff", "-k", repository()+"/config/default")
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
