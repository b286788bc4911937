package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ordersHost is what checkout writes in its URLs, as in any cluster.
const ordersHost = "orders.shop.svc:8080"

// shop is the sample workload.
type shop struct {
	orders   string // address of the upstream
	checkout string // address at which the client is asked for calls
	client   *child
	answered int // process id that came with the last answer of checkout
}

// result is what checkout says of a call; see hack/demo/checkout.
type result struct {
	PID      int     `json:"pid"`
	Outcome  string  `json:"outcome"`
	Limit    string  `json:"limit"`
	Status   int     `json:"status"`
	Attempts int     `json:"attempts"`
	Seconds  float64 `json:"seconds"`
	Bytes    int64   `json:"bytes"`
	Error    string  `json:"error"`
	Revision string  `json:"revision"`
}

// String says it in one line.
func (r result) String() string {
	text := fmt.Sprintf("%s after %.3f s, attempts %d, %d bytes of body", r.Outcome, r.Seconds, r.Attempts, r.Bytes)
	if r.Limit != "" {
		text += ", limit of the " + r.Limit
	}
	return text
}

// visit is a request as orders saw it; see hack/demo/orders.
type visit struct {
	Arrived time.Time `json:"arrived"`
	Seconds *float64  `json:"seconds"`
}

// clientStatus is what checkout lives on; see clientlib.Status.
type clientStatus struct {
	State     string    `json:"state"`
	Revision  string    `json:"revision"`
	AppliedAt time.Time `json:"appliedAt"`
}

func (d *demo) openShop(ctx context.Context) error {
	d.tell.step("Open a shop: checkout calls orders",
		"Two local processes stand in for pods. checkout has its pod's name, uid and token, and its volumes are written by",
		"the kubelet's own code; it is an ordinary program that uses clientlib.")
	if _, err := d.kubectl.show(ctx, "apply", "-f", "hack/demo/shop.yaml"); err != nil {
		return err
	}
	var pod object
	if err := d.kubectl.get(ctx, &pod, "pod", "checkout-1", "--namespace", "shop"); err != nil {
		return err
	}
	token, err := d.token(ctx, "--namespace", "shop", "default",
		"--bound-object-kind", "Pod", "--bound-object-name", pod.Metadata.Name, "--bound-object-uid", pod.Metadata.UID)
	if err != nil {
		return err
	}
	tokenFile := filepath.Join(d.folder.path, "checkout.token")
	if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
		return err
	}
	volumes := filepath.Join(d.folder.path, "volumes")
	if err := d.mount(ctx, volumes); err != nil {
		return err
	}
	if d.policies, err = d.startWatch(ctx, "timeoutpolicies"); err != nil {
		return err
	}
	if d.configMaps, err = d.startWatch(ctx, "configmaps"); err != nil {
		return err
	}
	if d.shop.orders, _, err = d.serve(ctx, "orders", d.ordersPort, nil); err != nil {
		return err
	}
	d.shop.checkout, d.shop.client, err = d.serve(ctx, "checkout", d.checkoutPort, []string{
		"POD_NAME=" + pod.Metadata.Name, "POD_NAMESPACE=shop", "POD_UID=" + pod.Metadata.UID,
		"TIMEOUTS_DIR=" + volumes, "TIMEOUTS_API_SERVER=" + d.server, "TIMEOUTS_CA_FILE=" + d.ca, "TIMEOUTS_TOKEN_FILE=" + tokenFile,
		"TIMEOUTS_REPORT_MAX_DELAY=1s", // not for clusters: the delays protect the API server
	}, "--upstream", "http://"+ordersHost, "--connect-to", ordersHost+"="+d.shop.orders)
	return err
}

// mount starts the kubelet's part for the pod of checkout.
func (d *demo) mount(ctx context.Context, volumes string) error {
	args := []string{"mount", "--kubeconfig", d.kubeconfig(), "--namespace", "shop", "--dir", volumes, "timeouts-checkout=client", "timeouts=namespace"}
	d.tell.command(append([]string{"bin/cluster"}, args...)...)
	cmd := exec.Command(d.bin("cluster"), args...)
	cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+d.assets)
	p, err := d.children.start("mounter", cmd)
	if err != nil {
		return err
	}
	_, err = p.await(ctx, "mounted volumes", func(line string) bool { return line == "mounted" })
	return err
}

// serve starts a process of the shop, which prints its address first.
func (d *demo) serve(ctx context.Context, name string, port int, environment []string, args ...string) (string, *child, error) {
	args = append([]string{"--listen", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}, args...)
	d.tell.command(append([]string{"bin/" + name}, args...)...)
	cmd := exec.Command(d.bin(name), args...)
	cmd.Env = append(os.Environ(), environment...)
	p, err := d.children.start(name, cmd)
	if err != nil {
		return "", nil, err
	}
	address, err := p.await(ctx, "an address", func(line string) bool { return strings.HasPrefix(line, "127.0.0.1:") })
	d.tell.say(fmt.Sprintf("%s runs as process %d, on %s", name, cmd.Process.Pid, address))
	return address, p, err
}

// callURL asks checkout for a call of a path of orders.
func (s shop) callURL(path string) string { return "http://" + s.checkout + "/call" + path }

// call has checkout make a call, prints what came of it, and returns it with
// the requests that orders saw of it.
func (d *demo) call(ctx context.Context, path string) (result, []visit, error) {
	before, err := d.visits(ctx, path)
	if err != nil {
		return result{}, nil, err
	}
	asked := d.shop.callURL(path)
	d.tell.command("curl", asked)
	var r result
	if err := fetchJSON(ctx, asked, &r); err != nil {
		return result{}, nil, err
	}
	d.shop.answered = r.PID
	d.tell.say(fmt.Sprintf("checkout (process %d): %s", r.PID, r))
	if r.Error != "" {
		d.tell.say(indent + r.Error)
	}
	seen, err := d.visitsSince(ctx, path, len(before))
	if err != nil {
		return result{}, nil, err
	}
	for i, v := range seen {
		d.tell.say(fmt.Sprintf("orders: request %d came at %.3f s and was served for %.3f s", i+1, v.Arrived.Sub(seen[0].Arrived).Seconds(), *v.Seconds))
	}
	return r, seen, nil
}

// visits returns the requests for a path that reached orders so far.
func (d *demo) visits(ctx context.Context, path string) ([]visit, error) {
	bare, _, _ := strings.Cut(path, "?")
	var visits []visit
	err := fetchJSON(ctx, "http://"+d.shop.orders+"/-/requests?path="+url.QueryEscape(bare), &visits)
	return visits, err
}

// visitsSince leaves the first ones out, and waits until the others are over.
func (d *demo) visitsSince(ctx context.Context, path string, first int) (visits []visit, err error) {
	err = poll(ctx, "the end of all requests at orders", func(ctx context.Context) error {
		if visits, err = d.visits(ctx, path); err != nil {
			return err
		}
		for _, v := range visits {
			if v.Seconds == nil {
				return errNotYet
			}
		}
		return nil
	})
	return visits[min(first, len(visits)):], err
}

// status of checkout.
func (d *demo) status(ctx context.Context) (clientStatus, error) {
	var s clientStatus
	err := fetchJSON(ctx, "http://"+d.shop.checkout+"/status", &s)
	return s, err
}

// awaitRevision waits until checkout lives on a revision.
func (d *demo) awaitRevision(ctx context.Context, revision string) (s clientStatus, err error) {
	err = poll(ctx, "checkout with "+short(revision), func(ctx context.Context) error {
		if s, err = d.status(ctx); err != nil {
			return err
		}
		if s.Revision != revision || s.State != "Ready" {
			return fmt.Errorf("%w: it has %q, state %s", errNotYet, short(s.Revision), s.State)
		}
		return nil
	})
	return s, err
}

// short is the start of a revision, as the policy's status shows it.
func short(revision string) string {
	if len(revision) > len("sha256:")+12 {
		return revision[:len("sha256:")+12]
	}
	return revision
}
