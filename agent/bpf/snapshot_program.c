// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/snapshot_program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/shared_variables.h"
#include "snapshot.skel.h"

struct snapshot_program {
	struct snapshot_bpf *programs;
	void *value; // map value: starts with the record
};

int snapshot_program_open(const struct loader *loader, struct snapshot_program **ret_program,
			  struct error *err)
{
	struct snapshot_program *program = calloc(1, sizeof(*program));
	int rc = program ? 0 : -ENOMEM;

	if (!rc)
		program->programs = snapshot_bpf__open();
	if (!rc && !program->programs)
		rc = -errno;
	if (!rc)
		rc = loader_share_maps(loader, program->programs->obj);
	if (!rc) {
		program->programs->rodata->unwind_python = false; // Python frames are gone by then
		rc = snapshot_bpf__load(program->programs);
	}
	if (!rc) {
		program->value = calloc(1, bpf_map__value_size(program->programs->maps.snapshot));
		rc = program->value ? 0 : -ENOMEM;
	}
	if (rc) {
		snapshot_program_close(program);
		return error_errno(err, rc, "load the snapshot program");
	}
	*ret_program = program;
	return 0;
}

void snapshot_program_close(struct snapshot_program *program)
{
	if (!program)
		return;
	snapshot_bpf__destroy(program->programs);
	free(program->value);
	free(program);
}

int snapshot_program_run(struct snapshot_program *program, const struct snapshot_record *record)
{
	const struct snapshot_bpf *programs = program->programs;
	LIBBPF_OPTS(bpf_test_run_opts, options);
	uint32_t zero = 0;

	memcpy(program->value, record, snapshot_record_size(record));
	if (bpf_map_update_elem(bpf_map__fd(programs->maps.snapshot), &zero, program->value,
				BPF_ANY))
		return -errno;
	return bpf_prog_test_run_opts(bpf_program__fd(programs->progs.unwind_snapshot), &options)
		       ? -errno
		       : 0;
}
