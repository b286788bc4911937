package controllers

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

// applyConfigMap applies a document. Where somebody put its key into binaryData,
// it cannot stand in data too, and an apply takes nothing away that it never
// owned: the key is taken out of binaryData first. For clients that is an empty
// ConfigMap for a moment, which takes nothing from them.
func (r *TimeoutPolicyReconciler) applyConfigMap(ctx context.Context, configMap *corev1apply.ConfigMapApplyConfiguration) error {
	apply := func() error {
		return r.Client.Apply(ctx, configMap, client.FieldOwner(v1alpha1.OperatorFieldManager), client.ForceOwnership)
	}
	err := apply()
	if !keyIsTaken(err) {
		return err
	}
	patch, marshalErr := json.Marshal(map[string]any{"binaryData": map[string]any{v1alpha1.DocumentKey: nil}})
	if marshalErr != nil {
		return marshalErr
	}
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: *configMap.Namespace, Name: *configMap.Name}}
	if err := r.Client.Patch(ctx, stored, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1alpha1.OperatorFieldManager)); err != nil {
		return err
	}
	return apply()
}

// keyIsTaken reports whether a ConfigMap was refused for the key of its document,
// which is valid: then binaryData has one of that name.
func keyIsTaken(err error) bool {
	causes, _ := invalidFields(err)
	return slices.ContainsFunc(causes, func(c metav1.StatusCause) bool {
		return c.Field == "data["+v1alpha1.DocumentKey+"]"
	})
}
