package main

import (
	"bytes"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFlagsBecomeOptions(t *testing.T) {
	options, log, err := parse([]string{
		"--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0", "--leader-elect", "--leader-election-namespace=system",
		"--watch-namespaces= a,b ,", "--cluster-domain=example.org", "--report-debounce=7s", "--client-reports=false", "--concurrency=9", "--pprof-bind-address=127.0.0.1:0",
		"--log-format=json", "--log-level=DEBUG",
	}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if options.MetricsAddress != "0" || options.PprofAddress != "127.0.0.1:0" || options.HealthAddress != "127.0.0.1:0" ||
		!options.LeaderElection.Enabled || options.LeaderElection.Namespace != "system" ||
		!slices.Equal(options.Namespaces, []string{"a", "b"}) || options.Plan.ClusterDomain != "example.org" ||
		options.ReportDebounce != 7*time.Second || !options.Plan.ReportingDisabled || options.Concurrency != 9 {
		t.Errorf("options are %+v", options)
	}
	if !log.Enabled(t.Context(), -4) {
		t.Error("the log has no debugging")
	}
}

func TestWithoutFlagsTheDefaultsHold(t *testing.T) {
	options, _, err := parse(nil, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if options.MetricsAddress != ":8080" || options.PprofAddress != "0" || options.HealthAddress != ":8081" || options.LeaderElection.Enabled ||
		len(options.Namespaces) != 0 || options.Plan.ReportingDisabled || options.ReportDebounce != 5*time.Second {
		t.Errorf("options are %+v", options)
	}
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"not defined":              {"--no-such-flag"},
		`unexpected argument "up"`: {"up"},
		"log format":               {"--log-format=xml"},
		"invalid value":            {"--report-debounce=7"},
	} {
		var out bytes.Buffer
		if status := run(t.Context(), args, &out); status != 2 || !strings.Contains(out.String(), want) {
			t.Errorf("%v: status %d, %s", args, status, out.String())
		}
	}
	var out bytes.Buffer
	if status := run(t.Context(), []string{"--help"}, &out); status != 0 || !strings.Contains(out.String(), "watch-namespaces") {
		t.Errorf("--help: status %d, %s", status, out.String())
	}
}

func TestAddressThatIsTakenEndsTheProcess(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var out bytes.Buffer
	if status := run(t.Context(), []string{"--health-probe-bind-address=" + taken.Addr().String()}, &out); status != 1 || !strings.Contains(out.String(), "address already in use") {
		t.Errorf("status %d, %s", status, out.String())
	}
}
