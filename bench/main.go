// Command bench measures the call path beside bare clients and beside other
// libraries of the field, and the reload of a policy. All cases of a group run
// in turns within one process, so that what else the machine does touches all of
// them alike; over a network each alternates with context.WithTimeout every few calls.
// What is printed are medians of the turns.
//
//	go run . -only stub -rounds 41 -o raw.txt     # raw.txt is for benchstat
//	go run . -only 'stub/ours' -cpuprofile cpu.out
//
// It is a module of its own so that peers are no dependency of the library.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"runtime"
	"time"
)

func main() {
	log.SetFlags(0)
	var o options
	only := flag.String("only", "", "run the groups and cases whose group/case matches this regular expression")
	flag.IntVar(&o.rounds, "rounds", 21, "turns of each case, twenty times as many over a network, a fifth as long")
	flag.DurationVar(&o.turn, "turn", 50*time.Millisecond, "how long a turn takes, about; long enough for the garbage collector to run in each")
	heap := flag.Int("heap", 32, "MiB of memory to keep in use, as a service does: with none the garbage collector runs every few thousand calls, and its fixed cost is what one measures")
	raw := flag.String("o", "", "write every turn to this file, in the format that benchstat reads")
	var p profiles
	p.flags()
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		log.Fatalf("-only: %v", err)
	}
	o.only = pattern
	ballast := make([]byte, *heap<<20)
	defer runtime.KeepAlive(ballast)
	o.heap = *heap
	if err := run(o, *raw, &p); err != nil {
		log.Fatal(err)
	}
}

// options of a run.
type options struct {
	only   *regexp.Regexp
	rounds int
	turn   time.Duration
	heap   int       // MiB
	raw    io.Writer // nil for none
}

func run(o options, rawPath string, p *profiles) error {
	if rawPath != "" {
		file, err := os.Create(rawPath)
		if err != nil {
			return err
		}
		defer file.Close()
		o.raw = file
		writeRawHeader(file)
	}
	printMachine(os.Stdout, "before")
	fmt.Printf("%d turns of about %s for each case (%d of %s over a network), the cases in turns, over a network each beside context's; medians; %d MiB of heap in use\n",
		o.rounds, o.turn, networkRounds*o.rounds, o.turn/networkShorter, o.heap)
	if err := p.start(); err != nil {
		return err
	}
	r := &results{groups: map[string][]*testCase{}}
	for _, g := range groups() {
		cases, err := g.run(os.Stdout, o)
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		r.groups[g.name] = cases
	}
	var err error
	if r.reload, err = reloads(os.Stdout, o); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	if r.pause, err = pauses(os.Stdout, o); err != nil {
		return fmt.Errorf("pauses: %w", err)
	}
	if err := r.print(os.Stdout); err != nil {
		return err
	}
	printMachine(os.Stdout, "after")
	return p.stop()
}
