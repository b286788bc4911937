package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// ControlPlane is a running control plane. Close it.
type ControlPlane struct {
	options Options
	state   *state
	creds   *credentials
	client  *http.Client
	spawner *spawner
	died    chan error
	port    int // set before Start returns

	lifecycle sync.Mutex // held while a component is started or ended
	mu        sync.Mutex // guards what follows
	processes map[Component]*process
	waits     sync.WaitGroup
	closed    bool
}

// Start brings the control plane up and returns when the API server is ready and, with a controller-manager, the
// default service account exists. When it fails, or ctx ends before, nothing is left behind. Later, ctx has no effect.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if o.Kubeconfig != "" && !ours(os.ReadFile(o.Kubeconfig)) {
		return nil, fmt.Errorf("%s is a kubeconfig that this tool did not write: name another file with --kubeconfig", o.Kubeconfig)
	}
	if _, err := choosePort(o.Port); err != nil {
		return nil, err
	}
	state, err := claimState(o.Dir)
	if err != nil {
		return nil, err
	}
	cp := &ControlPlane{
		options: o, state: state, spawner: newSpawner(),
		died: make(chan error, len(o.components())), processes: map[Component]*process{},
	}
	if err := cp.start(ctx); err != nil {
		return nil, errors.Join(err, cp.Close())
	}
	return cp, nil
}

func (cp *ControlPlane) start(ctx context.Context) (err error) {
	if cp.creds, err = loadCredentials(cp.state.pki(), time.Now()); err != nil {
		return err
	}
	if cp.client, err = administrator(cp.creds); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		if cp.port, err = choosePort(cp.options.Port); err != nil {
			return err
		}
		if err := writeConfig(cp.options, cp.state.files, cp.creds, cp.port); err != nil {
			return err
		}
		err := cp.startMissing(ctx)
		if err != nil && takenMeanwhile(err) && cp.options.Port == 0 && attempt < 5 {
			continue
		}
		return err
	}
}

// startMissing starts the components that do not run, in order.
func (cp *ControlPlane) startMissing(ctx context.Context) error {
	for _, c := range cp.options.components() {
		if cp.Running(c) {
			continue
		}
		if err := cp.Start(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Start starts a component that does not run, on the port and data it had, and returns when it is ready.
func (cp *ControlPlane) Start(ctx context.Context, c Component) error {
	cp.lifecycle.Lock()
	defer cp.lifecycle.Unlock()
	p, err := cp.launch(c)
	if err != nil {
		return err
	}
	if err := cp.await(ctx, c); err != nil {
		p.kill()
		return err
	}
	go cp.watch(c, p)
	if c == Etcd && cp.Running(APIServer) {
		return cp.Ready(ctx)
	}
	return nil
}

// launch starts the process of a component.
func (cp *ControlPlane) launch(c Component) (*process, error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.closed {
		return nil, errors.New("the control plane is closed")
	}
	if !slices.Contains(cp.options.components(), c) {
		return nil, fmt.Errorf("%q is not a component of this control plane, which has %v", c, cp.options.components())
	}
	if p := cp.processes[c]; p != nil && p.running() {
		return nil, fmt.Errorf("%s runs already", c)
	}
	if c == Etcd { // so that the socket's being there means that etcd listens
		if err := os.Remove(cp.state.etcdSocket()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("remove an old socket: %w", err)
		}
	}
	args := arguments(c, cp.options, cp.state.files, cp.creds, cp.port)
	p, err := cp.spawner.spawn(filepath.Join(cp.options.Bin, string(c)), args, cp.state.dir, cp.state.log(c))
	if err != nil {
		return nil, err
	}
	cp.processes[c] = p
	cp.waits.Go(p.wait)
	return p, nil
}

// watch reports the end of a component that nobody asked to end.
func (cp *ControlPlane) watch(c Component, p *process) {
	<-p.ended
	if p.asked.Load() {
		return
	}
	select {
	case cp.died <- p.death(c):
	default: // somebody will see the earlier ones
	}
}

// Stop ends a component the orderly way and returns when it has ended; one that takes longer than Options.StopTimeout,
// or than ctx, is killed, and that is an error. A component that does not run is no error.
func (cp *ControlPlane) Stop(ctx context.Context, c Component) error {
	cp.lifecycle.Lock()
	defer cp.lifecycle.Unlock()
	p := cp.process(c)
	if p == nil || !p.running() {
		return nil
	}
	start := time.Now()
	if p.stop(ctx, cp.options.StopTimeout) {
		return fmt.Errorf("%s did not end %s after it was told to and was killed", c, time.Since(start).Round(time.Second))
	}
	cp.options.Progress(fmt.Sprintf("%s: stopped after %s", c, time.Since(start).Round(10*time.Millisecond)))
	return nil
}

// Kill ends a component with SIGKILL, as a crash would, and returns when it has ended.
func (cp *ControlPlane) Kill(c Component) {
	cp.lifecycle.Lock()
	defer cp.lifecycle.Unlock()
	if p := cp.process(c); p != nil && p.running() {
		p.kill()
		cp.options.Progress(fmt.Sprintf("%s: killed", c))
	}
}

// Restart is Stop, then Start.
func (cp *ControlPlane) Restart(ctx context.Context, c Component) error {
	if err := cp.Stop(ctx, c); err != nil {
		return err
	}
	return cp.Start(ctx, c)
}

// Ready returns once the API server answers that it is ready, or with why it does not when ctx or
// Options.StartTimeout ends.
func (cp *ControlPlane) Ready(ctx context.Context) error {
	return cp.await(ctx, APIServer)
}

// Components are those that this control plane has, in the order in which they start.
func (cp *ControlPlane) Components() []Component { return cp.options.components() }

// Running reports whether the component's process is there.
func (cp *ControlPlane) Running(c Component) bool {
	p := cp.process(c)
	return p != nil && p.running()
}

// PID returns the process id of a component, 0 if it does not run.
func (cp *ControlPlane) PID(c Component) int {
	if p := cp.process(c); p != nil && p.running() {
		return p.cmd.Process.Pid
	}
	return 0
}

// dead returns the first component that ended although nobody asked it to, or nil.
func (cp *ControlPlane) dead() *DeathError {
	for _, c := range cp.options.components() {
		if p := cp.process(c); p != nil && !p.running() && !p.asked.Load() {
			return p.death(c)
		}
	}
	return nil
}

func (cp *ControlPlane) process(c Component) *process {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return cp.processes[c]
}

// Died delivers a *DeathError for each component that ended although nobody asked it to.
func (cp *ControlPlane) Died() <-chan error { return cp.died }

// URL is the API server's address.
func (cp *ControlPlane) URL() string { return serverURL(cp.port) }

// Client is an HTTP client that the API server takes for a member of system:masters. It gives up after 5 seconds.
func (cp *ControlPlane) Client() *http.Client { return cp.client }

// Kubeconfig is the path of the administrator's kubeconfig.
func (cp *ControlPlane) Kubeconfig() string {
	if cp.options.Kubeconfig != "" {
		return cp.options.Kubeconfig
	}
	return cp.state.kubeconfig()
}

// Dir is the state folder; its logs folder holds each component's log.
func (cp *ControlPlane) Dir() string { return cp.state.dir }

// Close stops the components in reverse order, and deletes a temporary state folder together with the kubeconfigs
// that are of no use without it. It may be called more than once.
func (cp *ControlPlane) Close() error {
	var errs []error
	for _, c := range slices.Backward(cp.options.components()) {
		if !cp.Running(Etcd) { // without it the others cannot end in good order, and would be waited for in vain
			cp.Kill(c)
			continue
		}
		errs = append(errs, cp.Stop(context.Background(), c))
	}
	cp.lifecycle.Lock()
	defer cp.lifecycle.Unlock()
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.closed {
		return nil
	}
	cp.closed = true
	cp.spawner.close()
	cp.waits.Wait()
	if cp.state.temporary && cp.options.Kubeconfig != "" {
		if err := os.Remove(cp.options.Kubeconfig); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("delete the kubeconfig: %w", err))
		}
	}
	return errors.Join(append(errs, cp.state.release())...)
}
