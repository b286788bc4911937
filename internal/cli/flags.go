package cli

import (
	"cmp"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clusterFlags are kubectl's usual ones.
type clusterFlags struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
}

func (c *clusterFlags) bind(flags *pflag.FlagSet) {
	c.rules = clientcmd.NewDefaultClientConfigLoadingRules()
	flags.StringVar(&c.rules.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "", "kubeconfig file to use")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	flags.StringVarP(&c.overrides.Context.Namespace, "namespace", "n", "", "namespace; for files also the one of policies that name none (default: that of the context, \"default\" for files)")
	names.ContextOverrideFlags.Namespace.LongName = ""
	clientcmd.BindOverrideFlags(&c.overrides, flags, names)
}

// config of the API server and the namespace in force.
func (c *clusterFlags) config() (*rest.Config, string, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules, &c.overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", err
	}
	namespace, _, err := loader.Namespace()
	return config, namespace, err
}

// namespaceOf is the namespace of an object in a file.
func (c *clusterFlags) namespaceOf(own string) string {
	return cmp.Or(own, c.overrides.Context.Namespace, "default")
}

func (in *inputFlags) bind(flags *pflag.FlagSet) {
	flags.StringSliceVarP(&in.files, "filename", "f", nil, "file or folder with policies, - for standard input; more than once if need be")
	flags.BoolVarP(&in.recursive, "recursive", "R", false, "look into the folders below, too")
	flags.StringVar(&in.clusterDomain, "cluster-domain", "cluster.local", "domain of the cluster, as the operator has it")
}
