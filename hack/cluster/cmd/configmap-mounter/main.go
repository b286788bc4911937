// Command configmap-mounter is "cluster mount": it keeps folders filled with ConfigMaps the way the kubelet does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/timeout-operator/timeout-operator/hack/cluster/mount"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit status: 0 told to end, 1 failed, 2 wrong arguments.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	mounter, kubeconfig, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "cluster mount: %v\n", err)
		return 2
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		fmt.Fprintf(stderr, "cluster mount: read the kubeconfig %s: %v\n", kubeconfig, err)
		return 1
	}
	if mounter.Client, err = kubernetes.NewForConfig(config); err != nil {
		fmt.Fprintf(stderr, "cluster mount: use the kubeconfig %s: %v\n", kubeconfig, err)
		return 1
	}
	if err := os.MkdirAll(mounter.Dir, 0o755); err != nil {
		fmt.Fprintf(stderr, "cluster mount: make the folder of the volumes: %v\n", err)
		return 1
	}
	mounter.Log = slog.New(slog.NewTextHandler(stderr, nil))
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go's own words on what mounter.Log says in one line
	mounter.Mounted = func() { fmt.Fprintln(stdout, "mounted") }
	mounter.Run(ctx)
	return 0
}

func parse(args []string, stderr io.Writer) (m mount.Mounter, kubeconfig string, err error) {
	flags := flag.NewFlagSet("mount", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "`file` that says where the API server is and who we are")
	flags.StringVar(&m.Namespace, "namespace", "default", "`namespace` of the ConfigMaps")
	flags.StringVar(&m.Dir, "dir", "", "`folder` below which the volumes are made; they stay when the command ends")
	flags.DurationVar(&m.Delay, "delay", 0, "project a change only so long after it, as a kubelet would (0 to 90 s)")
	flags.Usage = func() {
		flags.SetOutput(stderr)
		fmt.Fprint(stderr, "Usage: cluster mount [flags] CONFIGMAP=SUBDIR...\n\nPrints \"mounted\" when every volume is there. Flags:\n")
		flags.PrintDefaults()
	}
	var volumes []string
	for rest := args; ; { // flags may stand before, between and after the volumes
		if err := flags.Parse(rest); err != nil {
			return m, "", err
		}
		if flags.NArg() == 0 {
			break
		}
		volumes = append(volumes, flags.Arg(0))
		rest = flags.Args()[1:]
	}
	switch {
	case m.Dir == "":
		return m, "", errors.New("--dir is missing: name the folder of the volumes")
	case kubeconfig == "":
		return m, "", errors.New("--kubeconfig is missing, and KUBECONFIG is not set")
	case m.Delay < 0:
		return m, "", fmt.Errorf("--delay %s: it cannot be negative", m.Delay)
	}
	if m.Dir, err = filepath.Abs(m.Dir); err != nil {
		return m, "", fmt.Errorf("--dir %s: %w", m.Dir, err)
	}
	m.Volumes, err = mount.ParseVolumes(volumes)
	return m, kubeconfig, err
}
