package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// demo is one performance.
type demo struct {
	options
	tell     *teller
	root     string // the checkout
	assets   string // folder of the control plane's binaries
	dir      string // temporary, for everything that is written
	kubectl  *kubectl
	children *children

	server, ca string // URL of the API server, file of its certificate authority
	shop       shop
	policies   *watch
	configMaps *watch
}

// perform checks the machine, tells the story, keeps everything up if that is
// wanted, and cleans up, whatever happened.
func perform(ctx context.Context, o options, t *teller) error {
	root, err := findRepository()
	if err != nil {
		return err
	}
	if err := checkMachine(o); err != nil {
		return err
	}
	if err := adoptOrphans(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "timeout-operator-demo-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := &demo{options: o, tell: t, root: root, dir: dir, children: &children{logs: dir, fail: cancel}}
	err = d.play(ctx)
	if err == nil && o.keep {
		err = d.stay(ctx)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause // what the steps say then are consequences
	}
	if cleaning := d.clean(); cleaning != nil {
		err = errors.Join(err, cleaning)
	}
	if err != nil {
		return err
	}
	return t.summary()
}

// play is the story.
func (d *demo) play(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		d.build, d.startControlPlane, d.install, d.openShop, d.callWithoutPolicy, d.applyPolicy, d.callUnderPolicy,
		d.changePolicy, d.refusePolicy, d.repairDrift, d.showStatus,
	} {
		if err := step(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// stay keeps everything up until Ctrl-C, or until a part of it ends.
func (d *demo) stay(ctx context.Context) error {
	d.tell.step("Everything stays up until Ctrl-C; in another terminal:",
		"export KUBECONFIG="+d.kubeconfig()+" PATH="+d.assets+":$PATH",
		"kubectl -n shop edit timeoutpolicy checkout",
		"kubectl -n shop get timeoutpolicies -o wide --watch",
		fmt.Sprintf("curl '%s'   # also /ok, /slow?delay=300ms, /drip, /status?code=503, /reset", d.shop.callURL("/hang", 0)),
		fmt.Sprintf("curl 'http://%s/-/requests'   # when each request reached orders, and how long it was served", d.shop.orders),
		fmt.Sprintf("curl 'http://%s/status'       # what checkout lives on", d.shop.checkout),
		"Logs: "+d.dir+"/*.log")
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, errInterrupted) {
		return cause
	}
	d.tell.say("")
	return nil
}

// clean ends all processes, deletes the temporary folder, and makes sure of it.
func (d *demo) clean() error {
	d.tell.step("Clean up")
	err := d.children.stop()
	left := leftovers(5*time.Second, d.children.list)
	seen := fmt.Sprintf("%d were started in the background, with what they started; none is left", len(d.children.list))
	if len(left) > 0 {
		seen = strings.Join(left, ", ") + " had to be killed"
	}
	d.tell.check(len(left) == 0, "no process is left", "none", "%s", seen)
	err = errors.Join(err, os.RemoveAll(d.dir))
	_, gone := os.Stat(d.dir)
	d.tell.check(os.IsNotExist(gone), "no file is left", d.dir+" deleted", "%s is deleted", d.dir)
	return err
}

func (d *demo) kubeconfig() string { return filepath.Join(d.dir, "admin.kubeconfig") }
