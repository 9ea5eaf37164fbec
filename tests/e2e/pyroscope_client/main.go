// SPDX-License-Identifier: Apache-2.0
// Asks a collector as Grafana's Pyroscope data source does, with Pyroscope's own client: in protobuf, or with "json" in JSON.
// Prints what it got as one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
)

const cpu = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

type result struct {
	Types, Names, Services                 []string
	Series                                 int
	Total, Selfs, MaxSelf, Sum, Pprof      int64
	DiffLeft, DiffRight, DiffNumbers, Rows int64
	Heat                                   int64
	Ingested                               bool
	Unknown, BadSelector                   string
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	options := []connect.ClientOption{}
	if os.Args[1] == "json" {
		options = append(options, connect.WithProtoJSON(), connect.WithSendGzip())
	}
	client := querierv1connect.NewQuerierServiceClient(http.DefaultClient, os.Args[2], options...)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	selector := fmt.Sprintf("{service_name=%q}", os.Args[3])
	end := time.Now().UnixMilli() + 1000
	start := end - 3600*1000
	nodes := int64(100000)
	var got result

	types, err := client.ProfileTypes(ctx, connect.NewRequest(&querierv1.ProfileTypesRequest{Start: start, End: end}))
	must(err)
	for _, t := range types.Msg.ProfileTypes {
		got.Types = append(got.Types, t.ID)
	}
	names, err := client.LabelNames(ctx, connect.NewRequest(&typesv1.LabelNamesRequest{Matchers: []string{selector}, Start: start, End: end}))
	must(err)
	got.Names = names.Msg.Names
	values, err := client.LabelValues(ctx, connect.NewRequest(&typesv1.LabelValuesRequest{
		Name: "service_name", Matchers: []string{selector}, Start: start, End: end}))
	must(err)
	got.Services = values.Msg.Names
	series, err := client.Series(ctx, connect.NewRequest(&querierv1.SeriesRequest{
		Matchers:   []string{"{__profile_type__=\"" + cpu + "\", service_name=\"" + os.Args[3] + "\"}"},
		LabelNames: []string{"service_name", "__profile_type__"}, Start: start, End: end}))
	must(err)
	got.Series = len(series.Msg.LabelsSet)

	merge := &querierv1.SelectMergeStacktracesRequest{
		ProfileTypeID: cpu, LabelSelector: selector, Start: start, End: end, MaxNodes: &nodes}
	stacks, err := client.SelectMergeStacktraces(ctx, connect.NewRequest(merge))
	must(err)
	got.Total = stacks.Msg.Flamegraph.Total
	got.MaxSelf = stacks.Msg.Flamegraph.MaxSelf
	for _, level := range stacks.Msg.Flamegraph.Levels {
		for i := 2; i < len(level.Values); i += 4 {
			got.Selfs += level.Values[i]
		}
	}
	points, err := client.SelectSeries(ctx, connect.NewRequest(&querierv1.SelectSeriesRequest{
		ProfileTypeID: cpu, LabelSelector: selector, Start: start, End: end, Step: 15, GroupBy: []string{"service_name"}}))
	must(err)
	for _, s := range points.Msg.Series {
		for _, p := range s.Points {
			got.Sum += int64(p.Value)
		}
	}
	profile, err := client.SelectMergeProfile(ctx, connect.NewRequest(&querierv1.SelectMergeProfileRequest{
		ProfileTypeID: cpu, LabelSelector: selector, Start: start, End: end}))
	must(err)
	for _, s := range profile.Msg.Sample {
		got.Pprof += s.Value[0]
	}
	diff, err := client.Diff(ctx, connect.NewRequest(&querierv1.DiffRequest{Left: merge, Right: merge}))
	must(err)
	got.DiffLeft, got.DiffRight = diff.Msg.Flamegraph.LeftTicks, diff.Msg.Flamegraph.RightTicks
	got.DiffNumbers = int64(len(diff.Msg.Flamegraph.Levels[0].Values))
	heat, err := client.SelectHeatmap(ctx, connect.NewRequest(&querierv1.SelectHeatmapRequest{
		ProfileTypeID: cpu, LabelSelector: selector, Start: start, End: end, Step: 60}))
	must(err)
	for _, s := range heat.Msg.Series {
		for _, slot := range s.Slots {
			got.Rows = int64(len(slot.YMin))
			for _, count := range slot.Counts {
				got.Heat += int64(count)
			}
		}
	}
	stats, err := client.GetProfileStats(ctx, connect.NewRequest(&typesv1.GetProfileStatsRequest{}))
	must(err)
	got.Ingested = stats.Msg.DataIngested
	_, err = client.AnalyzeQuery(ctx, connect.NewRequest(&querierv1.AnalyzeQueryRequest{}))
	got.Unknown = connect.CodeOf(err).String()
	_, err = client.LabelNames(ctx, connect.NewRequest(&typesv1.LabelNamesRequest{Matchers: []string{"{x"}}))
	got.BadSelector = connect.CodeOf(err).String()
	must(json.NewEncoder(os.Stdout).Encode(got))
}
