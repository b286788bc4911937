package build

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Options say where things are. The zero value builds into the checkout that the current folder is in, and is silent.
type Options struct {
	Module   string    // folder hack/cluster; empty: found from the current folder
	Bin      string    // folder to build into; empty: DefaultBin(Module)
	Assets   string    // folder of ready binaries that win over building, the value of KUBEBUILDER_ASSETS; empty: none
	Log      io.Writer // progress, for people; nil: none
	Terminal bool      // Log is a terminal: progress in place
}

// Result is where the binaries are.
type Result struct {
	Folder string            // holds every binary that was asked for (and maybe others)
	Paths  map[string]string // name -> absolute path
}

// Ensure makes sure that the named binaries are there and up to date, building those that are not.
// No name means DefaultNames. Interrupting ctx stops the compilers and leaves the folder as it was.
func Ensure(ctx context.Context, o Options, names ...string) (Result, error) {
	if len(names) == 0 {
		names = DefaultNames()
	}
	wanted, err := lookup(names)
	if err != nil {
		return Result{}, err
	}
	if o, err = o.complete(); err != nil {
		return Result{}, err
	}
	paths, missing := fromAssets(wanted, o.Assets, o.Bin)
	for name, path := range paths {
		fmt.Fprintf(o.Log, "%s: taken from KUBEBUILDER_ASSETS (%s)\n", name, path)
	}
	if o.Assets != "" && !sameFolder(o.Assets, o.Bin) && len(missing) > 0 {
		fmt.Fprintf(o.Log, "not in KUBEBUILDER_ASSETS (%s): %s\n", o.Assets, list(missing))
	}
	if len(missing) > 0 {
		if err := o.build(ctx, missing); err != nil {
			return Result{}, err
		}
	}
	for _, t := range missing {
		paths[t.name] = filepath.Join(o.Bin, t.name)
	}
	folder, err := gather(paths, filepath.Join(o.Bin, "with-assets"))
	return Result{Folder: folder, Paths: paths}, err
}

func (o Options) complete() (Options, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	var err error
	if o.Module == "" {
		if o.Module, err = FindModule("."); err != nil {
			return o, err
		}
	}
	if o.Bin == "" {
		o.Bin = DefaultBin(o.Module)
	}
	for _, path := range []*string{&o.Module, &o.Bin, &o.Assets} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return o, fmt.Errorf("resolve %s: %w", *path, err)
		}
	}
	return o, nil
}

// recipe is what a build depends on besides its sources.
type recipe struct {
	tools   toolchain
	flags   []string
	version string            // of Kubernetes
	stamps  map[string]string // name -> stamp
}

// build brings the targets in the folder up to date.
func (o Options) build(ctx context.Context, wanted []target) error {
	r, err := o.recipe(ctx, wanted)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Bin, 0o755); err != nil {
		return fmt.Errorf("make the folder of the binaries: %w; name another one with --bin", err)
	}
	unlock, err := lock(ctx, o.Bin, func() {
		fmt.Fprintf(o.Log, "another process is building into %s: waiting for it\n", o.Bin)
	})
	if err != nil {
		return err
	}
	defer unlock()
	var pending []target
	for _, t := range wanted { // under the lock: the process that we waited for may have built it
		if !reusable(filepath.Join(o.Bin, t.name), r.stamps[t.name]) {
			pending = append(pending, t)
		}
	}
	if len(pending) == 0 {
		return nil
	}
	return o.compileAll(ctx, r, pending)
}

func (o Options) recipe(ctx context.Context, wanted []target) (recipe, error) {
	tools, err := readToolchain(ctx, o.Module)
	if err != nil {
		return recipe{}, err
	}
	req, err := readRequirements(ctx, o.Module)
	if err != nil {
		return recipe{}, err
	}
	if err := oldGo(tools.GOVERSION, req.goVersion); err != nil {
		return recipe{}, err
	}
	modules, err := digest(o.Module, "go.mod", "go.sum")
	if err != nil {
		return recipe{}, err
	}
	version := req.versions[kubernetes]
	r := recipe{tools: tools, flags: flags(version), version: version, stamps: map[string]string{}}
	for _, t := range wanted {
		version := req.versions[t.module]
		if t.module == modulePath {
			files, err := sourceFiles(o.Module, t.sources)
			if err != nil {
				return recipe{}, err
			}
			if version, err = digest(o.Module, files...); err != nil {
				return recipe{}, err
			}
		}
		r.stamps[t.name] = stamp(t, version, tools, r.flags, modules)
	}
	return r, nil
}

// compileAll builds the pending targets one after the other; what one compiled the next finds in the build cache.
func (o Options) compileAll(ctx context.Context, r recipe, pending []target) error {
	uncached, err := o.plan(ctx, r, pending)
	if err != nil {
		return err
	}
	all := pace{allPackages: uncached, allLinks: len(pending)}
	fmt.Fprintf(o.Log, "building %s into %s: %d packages to compile, about %s on 2 cores\n", list(pending), o.Bin, uncached, all.left(0))
	start := time.Now()
	var done counter
	for i, t := range pending {
		doing := fmt.Sprintf("%s (%d of %d)", t.name, i+1, len(pending))
		stop := ticker(o.Log, o.Terminal, func(time.Duration) string {
			p := all
			p.packages, p.links = int(done.packages.Load()), int(done.links.Load())
			return p.line(doing, time.Since(start))
		})
		began := time.Now()
		err := o.compileOne(ctx, r, t, &done)
		stop()
		if err != nil {
			return err
		}
		done.links.Add(1)
		fmt.Fprintf(o.Log, "%s: built in %s\n", t.name, time.Since(began).Round(100*time.Millisecond))
	}
	return nil
}

// plan counts the packages to compile and makes sure that there is room for them, and for the modules before.
func (o Options) plan(ctx context.Context, r recipe, pending []target) (uncached int, err error) {
	if err := checkDisk(append(moduleNeeds(r.tools, r.version), needs(pending, 0, r.tools, o.Bin)...), statDisk); err != nil {
		return 0, err
	}
	stop := ticker(o.Log, o.Terminal, func(elapsed time.Duration) string {
		return fmt.Sprintf("%s: finding the packages, which downloads 0.8 GB of modules the first time, %s so far", list(pending), elapsed.Round(time.Second))
	})
	uncached, err = countUncached(ctx, o.Module, r.flags, pending)
	stop()
	if err != nil {
		return 0, err
	}
	return uncached, checkDisk(needs(pending, uncached, r.tools, o.Bin), statDisk)
}

func (o Options) compileOne(ctx context.Context, r recipe, t target, done *counter) error {
	path := filepath.Join(o.Bin, t.name)
	temporary := filepath.Join(o.Bin, "."+t.name+".tmp")
	defer os.Remove(temporary) // nothing to remove after a success
	if err := compile(ctx, o.Module, r.flags, t, temporary, func() { done.packages.Add(1) }); err != nil {
		return err
	}
	return install(temporary, path, r.stamps[t.name])
}

func list(targets []target) string {
	names := make([]string, len(targets))
	for i, t := range targets {
		names[i] = t.name
	}
	return strings.Join(names, ", ")
}
