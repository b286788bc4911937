// Package api holds the API to its promises on a real API server: what the
// schema and the admission policies take, refuse and warn of, in tables.
package api

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
)

const root = "../.."

var (
	policies = v1alpha1.GroupVersion.WithResource("timeoutpolicies")
	reports  = v1alpha1.GroupVersion.WithResource("clientreports")

	// config, core and cluster act as an administrator.
	config  *rest.Config
	core    *kubernetes.Clientset
	cluster *dynamic.DynamicClient
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/api:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	assets, err := assetsDir()
	if err != nil {
		return 0, err
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        []string{filepath.Join(root, "config/crd/bases")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	config, err = env.Start()
	if err != nil {
		return 0, fmt.Errorf("start the control plane: %w", err)
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "test/api: stop the control plane:", err)
		}
	}()
	config.QPS, config.Burst = -1, -1
	config.WarningHandler = rest.NoWarnings{}
	if core, err = kubernetes.NewForConfig(config); err != nil {
		return 0, err
	}
	if cluster, err = dynamic.NewForConfig(config); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, dir := range []string{"config/admission", "config/flowcontrol"} {
		if err := applyDir(ctx, filepath.Join(root, dir)); err != nil {
			return 0, err
		}
	}
	if err := applyFile(ctx, filepath.Join(root, "config/rbac/reporter.yaml")); err != nil {
		return 0, err
	}
	if err := awaitAdmission(ctx); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// assetsDir finds the control plane's binaries; without them these tests say
// nothing, so they fail.
func assetsDir() (string, error) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		dir = filepath.Join(root, "bin/k8s")
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("the control plane's binaries are missing (%w): build them with hack/cluster, or set KUBEBUILDER_ASSETS", err)
		}
	}
	return dir, nil
}

// applyDir creates every object of the YAML files of a kustomize folder.
func applyDir(ctx context.Context, dir string) error {
	var k struct {
		Resources []string `json:"resources"`
	}
	data, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(data, &k); err != nil {
		return err
	}
	for _, name := range k.Resources {
		if err := applyFile(ctx, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func applyFile(ctx context.Context, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	objects, err := decodeAll(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, o := range objects {
		resource, ok := clusterResources[o.GroupVersionKind()]
		if !ok {
			return fmt.Errorf("%s: these tests do not know the kind %s", path, o.GroupVersionKind())
		}
		if _, err := cluster.Resource(resource).Create(ctx, o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

var clusterResources = map[schema.GroupVersionKind]schema.GroupVersionResource{
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"}: {
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"}: {
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Kind: "PriorityLevelConfiguration"}: {
		Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "prioritylevelconfigurations"},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Kind: "FlowSchema"}: {
		Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "flowschemas"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}: {
		Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}: {
		Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
}

// awaitAdmission waits until both admission policies are in force: a report
// without a pod behind it is refused, a policy without limits is warned of.
func awaitAdmission(ctx context.Context) error {
	report := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ClientReport",
		"metadata": map[string]any{"name": "probe"},
		"library":  map[string]any{"name": "probe"},
	}}
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := cluster.Resource(reports).Namespace("default").Create(ctx, report, metav1.CreateOptions{DryRun: dryRun})
		if err == nil {
			return false, nil
		}
		warnings, err := tryPolicy(ctx, policyFrom("upstreams: [{name: a, hosts: [a]}]"))
		return len(warnings) > 0, err
	})
	if err != nil {
		return fmt.Errorf("wait for the admission policies: %w", err)
	}
	return nil
}
