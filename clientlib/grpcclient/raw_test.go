package grpcclient_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

// rawServer speaks HTTP/2 in frames, for what no gRPC server lets one do. React
// is called in the goroutine of the connection when a request is complete.
type rawServer struct {
	address string
	react   func(*rawRequest)

	mu    sync.Mutex
	count int
	conns []net.Conn
}

// rawRequest is a request and the means to misbehave to it.
type rawRequest struct {
	id     uint32
	number int // 1 for the first of all connections
	fields map[string]string
	conn   net.Conn
	framer *http2.Framer
}

func startRaw(t testing.TB, react func(*rawRequest)) *rawServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{address: listener.Addr().String(), react: react}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			open.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		open.Wait()
	})
	return s
}

func (s *rawServer) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

func (s *rawServer) serve(conn net.Conn) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = framer.WriteSettings()
	requests := map[uint32]*rawRequest{}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = framer.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			r := &rawRequest{id: f.StreamID, fields: map[string]string{}, conn: conn, framer: framer}
			for _, field := range f.Fields {
				r.fields[field.Name] = field.Value
			}
			requests[f.StreamID] = r
		case *http2.DataFrame:
			if f.StreamEnded() {
				r := requests[f.StreamID]
				s.mu.Lock()
				s.count++
				r.number = s.count
				s.mu.Unlock()
				s.react(r)
			}
		}
	}
}

// reset ends the request with an error code.
func (r *rawRequest) reset(code http2.ErrCode) { _ = r.framer.WriteRSTStream(r.id, code) }

// goAway says that no request after last is or will be processed.
func (r *rawRequest) goAway(last uint32, code http2.ErrCode) {
	_ = r.framer.WriteGoAway(last, code, nil)
}

// headers sends a block of fields, names and values in turn.
func (r *rawRequest) headers(end bool, fields ...string) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = r.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: r.id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
}

// begin sends the headers of a gRPC response.
func (r *rawRequest) begin() {
	r.headers(false, ":status", "200", "content-type", "application/grpc")
}

// message sends a message with its prefix.
func (r *rawRequest) message(m proto.Message) {
	body, _ := proto.Marshal(m)
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))
	_ = r.framer.WriteData(r.id, false, append(prefix, body...))
}

// end sends the trailers.
func (r *rawRequest) end(code, text string, fields ...string) {
	r.headers(true, append([]string{"grpc-status", code, "grpc-message", text}, fields...)...)
}

// refuse answers with trailers alone.
func (r *rawRequest) refuse(code, text string) {
	r.headers(true, ":status", "200", "content-type", "application/grpc", "grpc-status", code, "grpc-message", text)
}

// left is what grpc-timeout says, negative for nothing.
func (r *rawRequest) left() time.Duration {
	text := r.fields["grpc-timeout"]
	if text == "" {
		return -1
	}
	units := map[byte]time.Duration{'n': 1, 'u': time.Microsecond, 'm': time.Millisecond, 'S': time.Second, 'M': time.Minute, 'H': time.Hour}
	var n time.Duration
	for _, c := range text[:len(text)-1] {
		n = n*10 + time.Duration(c-'0')
	}
	return n * units[text[len(text)-1]]
}
