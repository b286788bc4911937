package controlplane

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
)

// PortTakenError says that the port asked for is in use.
type PortTakenError struct{ Port int }

func (e *PortTakenError) Error() string {
	return fmt.Sprintf("port %d on 127.0.0.1 is taken: stop what uses it, or choose another one with --port (0 takes a free one)", e.Port)
}

// choosePort returns the port wanted if it is free, or a free one for 0. Somebody else may take it before the API
// server does; takenMeanwhile recognises that.
func choosePort(wanted int) (int, error) {
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: wanted})
	if errors.Is(err, syscall.EADDRINUSE) {
		return 0, &PortTakenError{Port: wanted}
	}
	if err != nil {
		return 0, fmt.Errorf("listen on 127.0.0.1:%d: %w", wanted, err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func takenMeanwhile(err error) bool {
	death, ok := errors.AsType[*DeathError](err)
	return ok && death.Component == APIServer && strings.Contains(death.Log, "address already in use")
}
