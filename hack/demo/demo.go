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
	folder   *folder
	kubectl  *kubectl
	children *children

	server, ca string // URL of the API server, file of its certificate authority
	shop       shop
	policies   *watch
	configMaps *watch
	traffic    *traffic
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
	folder, err := makeFolder()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := &demo{options: o, tell: t, root: root, folder: folder, children: &children{logs: folder.path, fail: cancel}}
	err = d.play(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause // what the steps say then are consequences
	}
	if err == nil {
		t.summary()
		if o.keep {
			err = d.stay(ctx)
		}
	}
	if err = errors.Join(err, d.clean()); err != nil {
		return err
	}
	return t.verdict()
}

// play is the story.
func (d *demo) play(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
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
		"export KUBECONFIG="+quote(d.kubeconfig())+" PATH="+quote(d.assets)+":$PATH",
		"kubectl -n shop edit timeoutpolicy checkout",
		"kubectl -n shop get timeoutpolicies -o wide --watch",
		"curl "+quote(d.shop.callURL("/hang"))+"   # checkout calls orders; also /ok, /slow?delay=300ms, /drip, /status?code=503, /reset",
		"curl http://"+d.shop.checkout+"/status      # what checkout lives on",
		"curl http://"+d.shop.orders+"/-/requests  # when each request reached orders, and how long it was served",
		"Logs of all processes: "+d.folder.path+"/*.log")
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, errInterrupted) {
		return cause
	}
	return nil
}

// clean ends all processes, deletes the temporary folder, and makes sure of it.
func (d *demo) clean() error {
	d.tell.step("Clean up")
	err := d.children.stop()
	left := leftovers(5*time.Second, d.children.list)
	seen := fmt.Sprintf("%d ran in the background, with children of their own; none is left", len(d.children.list))
	if len(left) > 0 {
		seen = strings.Join(left, ", ") + " had to be killed"
	}
	d.tell.check(len(left) == 0, "processes", "none is left", "%s", seen)
	err = errors.Join(err, d.folder.delete())
	_, gone := os.Stat(d.folder.path)
	d.tell.check(os.IsNotExist(gone), "files", d.folder.path+" is deleted", "%s is deleted", d.folder.path)
	return err
}

func (d *demo) kubeconfig() string { return filepath.Join(d.folder.path, "admin.kubeconfig") }
