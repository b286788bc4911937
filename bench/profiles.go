package main

import (
	"errors"
	"flag"
	"os"
	"runtime"
	"runtime/pprof"
)

// profiles are files to be written with profiles of the whole run.
type profiles struct {
	cpu, memory, mutex, block string
	file                      *os.File
}

func (p *profiles) flags() {
	flag.StringVar(&p.cpu, "cpuprofile", "", "write a CPU profile to this file")
	flag.StringVar(&p.memory, "memprofile", "", "write a profile of allocations to this file")
	flag.StringVar(&p.mutex, "mutexprofile", "", "write a profile of contended locks to this file")
	flag.StringVar(&p.block, "blockprofile", "", "write a profile of blocking to this file")
}

func (p *profiles) start() error {
	if p.memory != "" {
		runtime.MemProfileRate = 1024
	}
	if p.mutex != "" {
		runtime.SetMutexProfileFraction(1)
	}
	if p.block != "" {
		runtime.SetBlockProfileRate(1)
	}
	if p.cpu == "" {
		return nil
	}
	file, err := os.Create(p.cpu)
	if err != nil {
		return err
	}
	p.file = file
	return pprof.StartCPUProfile(file)
}

func (p *profiles) stop() error {
	var errs []error
	if p.file != nil {
		pprof.StopCPUProfile()
		errs = append(errs, p.file.Close())
	}
	for name, path := range map[string]string{"allocs": p.memory, "mutex": p.mutex, "block": p.block} {
		if path != "" {
			errs = append(errs, write(name, path))
		}
	}
	return errors.Join(errs...)
}

func write(profile, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(profile).WriteTo(file, 0), file.Close())
}
