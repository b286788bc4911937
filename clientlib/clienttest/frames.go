package clienttest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// FrameServer is an HTTP/2 server at the level of frames, for what no library
// lets a server do: refuse a stream, send a GOAWAY with a last stream of its
// choice, fall silent. It speaks to clients with prior knowledge on a plain
// listener, and on a tls.Listener whose NextProtos is "h2".
//
// React is called in a goroutine of its own when a request is complete, its body
// included. Fields must not change once Serve was called.
type FrameServer struct {
	React func(*Stream)
	// Mute leaves PINGs unanswered, as a dead peer does.
	Mute bool

	requests, conns atomic.Int64
}

// Requests returns how many requests were complete so far.
func (f *FrameServer) Requests() int { return int(f.requests.Load()) }

// Conns returns how many connections were opened so far.
func (f *FrameServer) Conns() int { return int(f.conns.Load()) }

// Serve answers connections until the listener is closed, closes what is open
// then, and returns when all of it has ended.
func (f *FrameServer) Serve(l net.Listener) error {
	var open sync.WaitGroup
	var conns sync.Map
	defer func() {
		conns.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true })
		open.Wait()
	}()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		f.conns.Add(1)
		conns.Store(conn, nil)
		open.Go(func() {
			c := &frameConn{Conn: conn, out: make(chan []byte, 16), gone: make(chan struct{})}
			open.Go(c.writeAll)
			defer conn.Close()
			defer close(c.gone)
			f.serve(c)
		})
	}
}

// The frames of RFC 9113, section 6, as far as they are used.
const (
	frameData     = 0x0
	frameHeaders  = 0x1
	frameReset    = 0x3
	frameSettings = 0x4
	framePing     = 0x6
	frameGoAway   = 0x7

	flagAck        = 0x1
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
)

// Error codes of RFC 9113, section 7.
const (
	H2NoError       uint32 = 0x0
	H2ProtocolError uint32 = 0x1
	H2InternalError uint32 = 0x2
	H2RefusedStream uint32 = 0x7
	H2Cancel        uint32 = 0x8
)

// frameConn writes in a goroutine of its own, since a peer may write too before
// it reads.
type frameConn struct {
	net.Conn
	out  chan []byte // nil closes the connection
	gone chan struct{}
}

func (c *frameConn) writeAll() {
	for {
		select {
		case b := <-c.out:
			if b == nil {
				_ = c.Close()
				return
			}
			// A client that has gone is the test's business.
			_, _ = c.Write(b)
		case <-c.gone:
			return
		}
	}
}

func (c *frameConn) send(b []byte) {
	select {
	case c.out <- b:
	case <-c.gone:
	}
}

func (f *FrameServer) serve(c *frameConn) {
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	c.frame(frameSettings, 0, 0, nil)
	var reacting sync.WaitGroup
	defer reacting.Wait()
	var header [9]byte
	for {
		if _, err := io.ReadFull(c, header[:]); err != nil {
			return
		}
		payload := make([]byte, int(header[0])<<16|int(header[1])<<8|int(header[2]))
		if _, err := io.ReadFull(c, payload); err != nil {
			return
		}
		kind, flags := header[3], header[4]
		switch {
		case kind == frameSettings && flags&flagAck == 0:
			c.frame(frameSettings, flagAck, 0, nil)
		case kind == framePing && flags&flagAck == 0 && !f.Mute:
			c.frame(framePing, flagAck, 0, payload)
		case (kind == frameHeaders || kind == frameData) && flags&flagEndStream != 0:
			id := binary.BigEndian.Uint32(header[5:]) &^ (1 << 31)
			s := &Stream{ID: id, Number: int(f.requests.Add(1)), conn: c}
			reacting.Go(func() { f.React(s) })
		}
	}
}

func (c *frameConn) frame(kind, flags byte, stream uint32, payload []byte) {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(b[5:], stream)
	c.send(append(b, payload...))
}

// Stream is a request to a FrameServer and the means to misbehave to it.
type Stream struct {
	ID uint32
	// Number is 1 for the first request of all connections.
	Number int
	conn   *frameConn
}

// Headers sends status 200; a body follows unless end is set.
func (s *Stream) Headers(end bool) {
	flags := byte(flagEndHeaders)
	if end {
		flags |= flagEndStream
	}
	s.conn.frame(frameHeaders, flags, s.ID, []byte{0x88}) // ":status: 200" of the static table
}

// BadHeaders sends a block of headers that cannot be decoded.
func (s *Stream) BadHeaders() {
	s.conn.frame(frameHeaders, flagEndHeaders, s.ID, []byte{0xff, 0xff, 0xff})
}

// Data sends a part of the body, the last one if end is set.
func (s *Stream) Data(text string, end bool) {
	var flags byte
	if end {
		flags = flagEndStream
	}
	s.conn.frame(frameData, flags, s.ID, []byte(text))
}

// Reset ends the stream with an error code.
func (s *Stream) Reset(code uint32) {
	s.conn.frame(frameReset, 0, s.ID, binary.BigEndian.AppendUint32(nil, code))
}

// GoAway says that no stream above last is or will be processed.
func (s *Stream) GoAway(last, code uint32) {
	payload := binary.BigEndian.AppendUint32(nil, last)
	s.conn.frame(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(payload, code))
}

// Close closes the connection once what was sent before is written.
func (s *Stream) Close() { s.conn.send(nil) }
