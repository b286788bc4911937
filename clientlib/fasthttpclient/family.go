package fasthttpclient

import (
	"errors"
	"io"

	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/valyala/fasthttp"
)

// relative is an error that is one of fasthttp's own too, for those who ask with
// errors.Is.
type relative struct {
	err error // may be nil
	kin error
}

func (r *relative) Error() string {
	if r.err == nil {
		return r.kin.Error()
	}
	return r.err.Error()
}

func (r *relative) Unwrap() error        { return r.err }
func (r *relative) Is(target error) bool { return target == r.kin }

// asFamily makes an error of the engine one of fasthttp's family: what its users
// look for when they ask about a timeout, a dial or the pool.
func asFamily(err error) error {
	var e *failure.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Kind {
	case failure.ConnectTimeout:
		e.Err = akin(e.Err, fasthttp.ErrDialTimeout)
	case failure.PoolTimeout:
		e.Err = akin(e.Err, fasthttp.ErrNoFreeConns)
	}
	if e.Kind.Timeout() {
		e.Err = akin(e.Err, fasthttp.ErrTimeout)
	}
	return err
}

func akin(err, kin error) error {
	if err != nil && errors.Is(err, kin) {
		return err
	}
	return &relative{err: err, kin: kin}
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
