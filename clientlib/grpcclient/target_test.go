package grpcclient

import "testing"

func TestTargetsNameTheirHost(t *testing.T) {
	for _, c := range []struct {
		target string
		want   string
		lost   bool
	}{
		{"dns:///orders.shop:8080", "orders.shop:8080", false},
		{"dns:///orders.shop", "orders.shop:443", false},
		{"dns:///Orders.Shop.:8080", "orders.shop:8080", false},
		{"dns://10.0.0.53/orders.shop:8080", "orders.shop:8080", false},
		{"dns:orders.shop:8080", "orders.shop:8080", false},
		{"dns:///:8080", "localhost:8080", false},
		{"dns:///[::1]:8080", "[::1]:8080", false},
		{"dns:///::1", "[::1]:443", false},
		{"passthrough:///orders:8080", "orders:8080", false},
		{"passthrough:///orders", "orders", false},
		{"xds:///orders.shop:8080", "orders.shop:8080", false},
		{"ipv4:10.0.0.1:80", "10.0.0.1:80", false},
		{"ipv4:10.0.0.1:80,10.0.0.2:80", "", true},
		{"etcd:///services/orders", "", true},
		{"dns:///", "localhost:443", false},
		{"dns:///orders:0", "", true},
		{"dns:///orders:http", "", true},
		{"unix:///run/orders.sock", "", false},
		{"unix:run/orders.sock", "", false},
		{"unix-abstract:orders", "", false},
		{"vsock:2:8080", "", false},
		{"dns:///%zz", "", true},
	} {
		to, lost := parseTarget(c.target)
		if to.String() != c.want || lost != c.lost {
			t.Errorf("%s: %q, lost %t", c.target, to.String(), lost)
		}
	}
}

func TestOnlySoManyTargetsAreRemembered(t *testing.T) {
	var known targets
	for i := range maxTargets + 10 {
		known.remember(string(rune(i+1)), &target{})
	}
	if n := len(*known.known.Load()); n != maxTargets {
		t.Errorf("%d targets", n)
	}
}

func FuzzTargets(f *testing.F) {
	for _, s := range []string{"dns:///orders:8080", "unix:/x", "ipv4:1,2", "%", "dns:///[::1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if to, lost := parseTarget(s); lost && to.name != "" {
			t.Errorf("%q is lost and has the host %q", s, to.name)
		}
	})
}
