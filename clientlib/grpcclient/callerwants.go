package grpcclient

import (
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// What the caller wants to be told of its call by options. To grpc-go each
// attempt is a call of its own.

// splitFinish takes the options of OnFinish out of those of a call: they are due
// once, when the call is over, and not with each attempt.
func splitFinish(given []grpc.CallOption) (rest []grpc.CallOption, finish []func(error)) {
	for i, opt := range given {
		o, ok := opt.(grpc.OnFinishCallOption)
		switch {
		case ok && finish == nil:
			// The options may be shared with other calls.
			rest = append(make([]grpc.CallOption, 0, len(given)), given[:i]...)
			fallthrough
		case ok:
			finish = append(finish, o.OnFinish)
		case finish != nil:
			rest = append(rest, opt)
		}
	}
	if finish == nil {
		return given, nil
	}
	return rest, finish
}

// callEach calls the functions of OnFinish with the error that the caller gets.
func callEach(finish []func(error), err error) {
	for _, f := range finish {
		if f != nil {
			f(err)
		}
	}
}

// forget takes away what an attempt before has told: one that gets no connection
// tells nothing, and leaves it standing.
func forget(given []grpc.CallOption) {
	for _, opt := range given {
		switch o := opt.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = nil
		case grpc.TrailerCallOption:
			*o.TrailerAddr = nil
		case grpc.PeerCallOption:
			*o.PeerAddr = peer.Peer{}
		}
	}
}

// asItWas keeps what a reply is before the first attempt, for [renew]: one that cannot
// be told to be empty. It is a copy of what the reply points to, and not of what that
// points to in turn; the zero Value for nothing to keep.
func asItWas(reply any) reflect.Value {
	v := reflect.ValueOf(reply)
	if _, resets := reply.(resetter); resets || v.Kind() != reflect.Pointer || v.IsNil() {
		return reflect.Value{}
	}
	was := reflect.New(v.Type().Elem()).Elem()
	was.Set(v.Elem())
	return was
}

// renew takes out of the reply what an attempt before may have left in it, such as a
// message whose end did not come in time: some codecs add to what is there.
func renew(reply any, was reflect.Value) {
	if m, resets := reply.(resetter); resets {
		m.Reset()
		return
	}
	if was.IsValid() {
		reflect.ValueOf(reply).Elem().Set(was)
	}
}

type resetter interface{ Reset() }
