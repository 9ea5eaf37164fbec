// SPDX-License-Identifier: Apache-2.0
// Makes and sends OTLP profiles as OpenTelemetry's eBPF profiler does, with OpenTelemetry's own modules: one resource a process,
// each hit a time, Python frames with names, native frames by build id and offset.
//
//	otlp_client grpc HOST:PORT UNIX_NS [TOKEN] | http URL UNIX_NS [TOKEN] | json URL UNIX_NS [TOKEN] | file PATH UNIX_NS
//
// And receives profiles: what it decodes is in a JSON file after each request, and is sent on, encoded anew.
//
//	otlp_client serve HOST:PORT FILE HOST:PORT_OF_THE_NEXT
//
// tests/unit/base/import/otlp_recorded.h is what `file` writes for 1700000000000000000.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
)

const (
	buildID = "0123456789abcdef0123456789abcdef01234567"
	hertz   = 20
	hits    = 40 // of each stack: two seconds of a CPU
)

type dictionary struct {
	pprofile.ProfilesDictionary
}

func (d dictionary) text(value string) int32 {
	index, err := pprofile.SetString(d.StringTable(), value)
	if err != nil {
		panic(err)
	}
	return index
}

func (d dictionary) attribute(name string, set func(pcommon.Value)) int32 {
	entry := d.AttributeTable().AppendEmpty()
	entry.SetKeyStrindex(d.text(name))
	set(entry.Value())
	return int32(d.AttributeTable().Len() - 1)
}

func (d dictionary) stringAttribute(name, value string) int32 {
	return d.attribute(name, func(v pcommon.Value) { v.SetStr(value) })
}

func (d dictionary) python(name, file string, line int64) int32 {
	function := d.FunctionTable().AppendEmpty()
	function.SetNameStrindex(d.text(name))
	function.SetFilenameStrindex(d.text(file))
	location := d.LocationTable().AppendEmpty()
	l := location.Lines().AppendEmpty()
	l.SetFunctionIndex(int32(d.FunctionTable().Len() - 1))
	l.SetLine(line)
	location.AttributeIndices().Append(d.stringAttribute("profile.frame.type", "cpython"))
	return int32(d.LocationTable().Len() - 1)
}

func (d dictionary) native(mapping int32, address uint64) int32 {
	location := d.LocationTable().AppendEmpty()
	location.SetMappingIndex(mapping)
	location.SetAddress(address)
	location.AttributeIndices().Append(d.stringAttribute("profile.frame.type", "native"))
	return int32(d.LocationTable().Len() - 1)
}

func (d dictionary) stack(locations ...int32) int32 {
	d.StackTable().AppendEmpty().LocationIndices().FromRaw(locations)
	return int32(d.StackTable().Len() - 1)
}

func (d dictionary) valueType(v pprofile.ValueType, kind, unit string) {
	v.SetTypeStrindex(d.text(kind))
	v.SetUnitStrindex(d.text(unit))
}

func sample(p pprofile.Profile, stack int32, attributes []int32, times []uint64, values []int64) {
	s := p.Samples().AppendEmpty()
	s.SetStackIndex(stack)
	s.AttributeIndices().FromRaw(attributes)
	s.TimestampsUnixNano().FromRaw(times)
	s.Values().FromRaw(values)
}

func makeProfiles(from uint64) pprofile.Profiles {
	profiles := pprofile.NewProfiles()
	d := dictionary{profiles.Dictionary()}
	// Entry 0 of each table is the null entry.
	d.StringTable().Append("")
	d.AttributeTable().AppendEmpty()
	d.LocationTable().AppendEmpty()
	d.FunctionTable().AppendEmpty()
	d.LinkTable().AppendEmpty()
	d.StackTable().AppendEmpty()
	d.MappingTable().AppendEmpty()
	mapping := d.MappingTable().AppendEmpty()
	mapping.SetFilenameStrindex(d.text("libcompute.so"))
	mapping.AttributeIndices().Append(d.stringAttribute("process.executable.build_id.gnu", buildID))

	main := d.python("<module>", "/srv/app.py", 30)
	work := d.python("Model.predict", "/srv/model.py", 12)
	multiply := d.native(1, 0x1234)
	busy := d.stack(multiply, work, main)
	plain := d.stack(work, main)
	thread := []int32{d.stringAttribute("thread.name", "worker"),
		d.attribute("thread.id", func(v pcommon.Value) { v.SetInt(4711) }),
		d.attribute("cpu.logical_number", func(v pcommon.Value) { v.SetInt(1) })}

	r := profiles.ResourceProfiles().AppendEmpty()
	attributes := r.Resource().Attributes()
	attributes.PutStr("service.name", "otlp-app")
	attributes.PutStr("k8s.namespace.name", "shop")
	attributes.PutStr("k8s.pod.name", "app-7d9f")
	attributes.PutStr("k8s.deployment.name", "app")
	attributes.PutStr("host.name", "node-a")
	attributes.PutStr("process.executable.name", "python3")
	attributes.PutInt("process.pid", 4711)
	attributes.PutStr("process.environment_variable.SECRET", "hunter2")
	scope := r.ScopeProfiles().AppendEmpty()

	cpu := scope.Profiles().AppendEmpty()
	d.valueType(cpu.SampleType(), "samples", "count")
	d.valueType(cpu.PeriodType(), "cpu", "nanoseconds")
	cpu.SetPeriod(int64(time.Second) / hertz)
	cpu.SetTime(pcommon.Timestamp(from))
	cpu.SetDurationNano(uint64(5 * time.Second))
	var even, odd []uint64
	for i := uint64(0); i < hits; i++ {
		even = append(even, from+i*uint64(100*time.Millisecond))
		odd = append(odd, from+i*uint64(100*time.Millisecond)+uint64(50*time.Millisecond))
	}
	sample(cpu, busy, thread, even, nil)
	sample(cpu, plain, thread[:1], odd, nil)

	blocked := scope.Profiles().AppendEmpty()
	d.valueType(blocked.SampleType(), "off_cpu", "nanoseconds")
	sample(blocked, plain, thread, even[:2], []int64{1000000, 2000000})

	other := profiles.ResourceProfiles().AppendEmpty()
	other.Resource().Attributes().PutStr("process.executable.name", "other")
	totals := other.ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
	d.valueType(totals.SampleType(), "alloc_space", "bytes")
	totals.SetTime(pcommon.Timestamp(from))
	totals.SetDurationNano(uint64(2 * time.Second))
	sample(totals, plain, nil, nil, []int64{4096})
	return profiles
}

func post(url, kind string, body []byte, token string) error {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	writer.Write(body)
	writer.Close()
	request, err := http.NewRequest("POST", url+"/v1development/profiles", &packed)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Content-Encoding", "gzip")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	text, _ := io.ReadAll(answer.Body)
	fmt.Println(answer.StatusCode, answer.Header.Get("Content-Type"), hex.EncodeToString(text))
	response := pprofileotlp.NewExportResponse()
	if answer.StatusCode != 200 {
		return fmt.Errorf("status %d: %q", answer.StatusCode, text)
	}
	if kind == "application/json" {
		err = response.UnmarshalJSON(text)
	} else {
		err = response.UnmarshalProto(text)
	}
	fmt.Println("message:", response.PartialSuccess().ErrorMessage())
	return err
}

func call(address string, request pprofileotlp.ExportRequest, token string) error {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	response, err := pprofileotlp.NewGRPCClient(connection).Export(ctx, request, grpc.UseCompressor("gzip"))
	if err == nil {
		fmt.Println("message:", response.PartialSuccess().ErrorMessage())
	}
	return err
}

// What was received: values by service, type and stack.
type receiver struct {
	pprofileotlp.UnimplementedGRPCServer
	lock     sync.Mutex
	next     pprofileotlp.GRPCClient
	file     string
	Requests int
	Headers  map[string][]string
	Resource map[string]map[string]string           // attributes by service
	Values   map[string]map[string]map[string]int64 // by service, type and stack, root first
	Threads  map[string]map[string]bool             // by service
	BuildIDs map[string]string                      // by file
	Early    int                                    // timestamps outside of their Profile
}

type table struct {
	pprofile.ProfilesDictionary
}

func (t table) text(index int32) string {
	return t.StringTable().At(int(index))
}

func (t table) attribute(indices pcommon.Int32Slice, name string) string {
	for _, index := range indices.All() {
		if entry := t.AttributeTable().At(int(index)); t.text(entry.KeyStrindex()) == name {
			return entry.Value().AsString()
		}
	}
	return ""
}

func (t table) frames(index int32) string {
	location := t.LocationTable().At(int(index))
	mapping := t.MappingTable().At(int(location.MappingIndex()))
	kind := t.attribute(location.AttributeIndices(), "profile.frame.type")
	if location.Lines().Len() == 0 {
		return fmt.Sprintf("%s+0x%x", path.Base(t.text(mapping.FilenameStrindex())), location.Address())
	}
	var names []string
	for _, line := range location.Lines().All() {
		function := t.FunctionTable().At(int(line.FunctionIndex()))
		name := t.text(function.NameStrindex())
		switch kind {
		case "kernel":
			name += "_[k]"
		case "cpython":
			name += fmt.Sprintf(" (%s:%d)", path.Base(t.text(function.FilenameStrindex())), line.Line())
		}
		names = append([]string{name}, names...)
	}
	return strings.Join(names, ";")
}

func (t table) stack(index int32) string {
	var frames []string
	for _, location := range t.StackTable().At(int(index)).LocationIndices().All() {
		frames = append([]string{t.frames(location)}, frames...)
	}
	return strings.Join(frames, ";")
}

func (r *receiver) add(t table, service string, p pprofile.Profile) {
	kind := t.attribute(p.AttributeIndices(), "cairn.profile.type")
	if r.Values[service][kind] == nil {
		r.Values[service][kind] = map[string]int64{}
	}
	for _, sample := range p.Samples().All() {
		stack := t.stack(sample.StackIndex())
		r.Threads[service][t.attribute(sample.AttributeIndices(), "thread.name")] = true
		for i, value := range sample.Values().All() {
			r.Values[service][kind][stack] += value
			at := sample.TimestampsUnixNano().At(i)
			if at < uint64(p.Time()) || at > uint64(p.Time())+p.DurationNano() {
				r.Early++
			}
		}
	}
}

func (r *receiver) Export(ctx context.Context, request pprofileotlp.ExportRequest) (pprofileotlp.ExportResponse, error) {
	profiles := request.Profiles()
	t := table{profiles.Dictionary()}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.Requests++
	r.Headers, _ = metadata.FromIncomingContext(ctx)
	for _, mapping := range t.MappingTable().All() {
		r.BuildIDs[t.text(mapping.FilenameStrindex())] = t.attribute(mapping.AttributeIndices(), "process.executable.build_id.gnu")
	}
	for _, resource := range profiles.ResourceProfiles().All() {
		attributes := map[string]string{}
		for name, value := range resource.Resource().Attributes().All() {
			attributes[name] = value.AsString()
		}
		service := attributes["service.name"]
		r.Resource[service] = attributes
		if r.Values[service] == nil {
			r.Values[service] = map[string]map[string]int64{}
			r.Threads[service] = map[string]bool{}
		}
		for _, scope := range resource.ScopeProfiles().All() {
			for _, p := range scope.Profiles().All() {
				r.add(t, service, p)
			}
		}
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(r.file+".new", text, 0o644)
	}
	if err == nil {
		err = os.Rename(r.file+".new", r.file)
	}
	if err != nil {
		return pprofileotlp.NewExportResponse(), err
	}
	return r.next.Export(ctx, request, grpc.UseCompressor("gzip"))
}

func serve(address, file, next string) error {
	connection, err := grpc.NewClient(next, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer() // with its limit of 4 MiB
	pprofileotlp.RegisterGRPCServer(server, &receiver{next: pprofileotlp.NewGRPCClient(connection), file: file,
		Resource: map[string]map[string]string{}, Values: map[string]map[string]map[string]int64{},
		Threads: map[string]map[string]bool{}, BuildIDs: map[string]string{}})
	return server.Serve(listener)
}

func main() {
	if len(os.Args) == 5 && os.Args[1] == "serve" {
		fmt.Fprintln(os.Stderr, serve(os.Args[2], os.Args[3], os.Args[4]))
		os.Exit(1)
	}
	from, err := strconv.ParseUint(os.Args[3], 10, 64)
	if err != nil {
		panic(err)
	}
	token := ""
	if len(os.Args) > 4 {
		token = os.Args[4]
	}
	request := pprofileotlp.NewExportRequestFromProfiles(makeProfiles(from))
	var body []byte
	switch os.Args[1] {
	case "grpc":
		err = call(os.Args[2], request, token)
	case "http":
		if body, err = request.MarshalProto(); err == nil {
			err = post(os.Args[2], "application/x-protobuf", body, token)
		}
	case "file":
		if body, err = request.MarshalProto(); err == nil {
			err = os.WriteFile(os.Args[2], body, 0o644)
		}
	case "json":
		if body, err = request.MarshalJSON(); err == nil {
			err = post(os.Args[2], "application/json", body, token)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
