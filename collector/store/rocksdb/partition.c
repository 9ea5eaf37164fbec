// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/partition.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collector/store/rocksdb/key.h"

enum {
	PARTITION_FORMAT = 1,
	MERGE_FORMAT = 1,
};

struct partition *partition_new(uint64_t start_ns, uint64_t length_ns)
{
	struct partition *partition = calloc(1, sizeof(*partition));

	if (!partition)
		return NULL;
	partition->start_ns = start_ns;
	partition->length_ns = length_ns;
	atomic_init(&partition->refs, 1);
	atomic_init(&partition->pins, 0);
	pthread_mutex_init(&partition->lock, NULL);
	pthread_mutex_init(&partition->read_lock, NULL);
	return partition;
}

struct partition *partition_ref(struct partition *partition)
{
	atomic_fetch_add(&partition->refs, 1);
	return partition;
}

void partition_unref(struct partition *partition)
{
	if (!partition || atomic_fetch_sub(&partition->refs, 1) != 1)
		return;
	forest_free(partition->forest);
	forest_view_unref(partition->view);
	postings_unref(partition->postings);
	tombstone_list_unref(partition->tombstones);
	head_deinit(&partition->head);
	pthread_mutex_destroy(&partition->lock);
	pthread_mutex_destroy(&partition->read_lock);
	free(partition);
}

void partition_note_damage(struct partition *partition, const char *text)
{
	if (!partition->damage[0])
		snprintf(partition->damage, sizeof(partition->damage), "%.*s",
			 PARTITION_DAMAGE_BYTES - 1, text);
	atomic_store(&partition->figures.damaged, true);
}

void partition_drop_postings(struct partition *partition)
{
	postings_unref(take(partition->postings));
	partition->generation++;
	partition_publish(partition);
}

// ---- saving -------------------------------------------------------------------------------------

static int put_record(struct partition *partition, struct db_batch *batch, enum record_kind kind,
		      uint64_t sequence, const struct buffer *record)
{
	struct key key = key_of_record(partition->start_ns, kind, sequence);

	if (record->rc)
		return record->rc;
	if (record->size)
		db_batch_put(batch, DB_DICTIONARY, key_bytes(&key),
			     (struct bytes){ record->bytes, record->size });
	return 0;
}

static int save_dictionaries(struct partition *partition, struct db_batch *batch, uint64_t sequence)
{
	_cleanup_(buffer_deinit) struct buffer record = { 0 };
	int rc = 0;

	for (int kind = RECORD_STRINGS; kind <= RECORD_SERIES && rc == 0; kind++) {
		buffer_clear(&record);
		if (kind == RECORD_SERIES && partition->postings)
			postings_encode(partition->postings, partition->series_saved, &record);
		else if (kind != RECORD_SERIES && partition->forest)
			forest_encode(partition->forest, kind, &partition->forest_saved, &record);
		rc = put_record(partition, batch, kind, sequence, &record);
	}
	return rc;
}

static void encode_summary(const struct partition_summary *summary, struct buffer *record)
{
	buffer_append_varint(record, PARTITION_FORMAT);
	buffer_append_varint(record, summary->nodes);
	buffer_append_varint(record, summary->series);
	buffer_append_varint(record, summary->oldest_ns);
	buffer_append_varint(record, summary->newest_ns);
}

int partition_save(struct partition *partition, struct db_batch *batch, uint64_t sequence,
		   struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer record = { 0 };
	int rc = save_dictionaries(partition, batch, sequence);

	if (partition->forest)
		partition->summary.nodes = partition->forest->node_count;
	if (partition->postings)
		partition->summary.series = partition->postings->series_count;
	partition_publish(partition);
	encode_summary(&partition->summary, &record);
	if (rc == 0)
		rc = put_record(partition, batch, RECORD_PARTITION, 0, &record);
	return rc ? error_set(err, rc, "store: out of memory for a record") : 0;
}

void partition_saved(struct partition *partition, const struct forest_mark *forest, uint32_t series)
{
	partition->forest_saved = *forest;
	partition->forest_saved.renamed = 0;
	partition->series_saved = series;
	if (partition->forest && forest->renamed)
		forest_saved(partition->forest, forest);
}

uint64_t partition_memory(const struct partition *partition)
{
	return sizeof(*partition) + partition->head.bytes +
	       (partition->forest ? forest_memory(partition->forest) : 0) +
	       (partition->view ? partition->view->memory : 0) +
	       (partition->postings ? postings_memory(partition->postings) : 0);
}

void partition_publish(struct partition *partition)
{
	const struct partition_summary *summary = &partition->summary;
	struct partition_figures *figures = &partition->figures;

	atomic_store(&figures->nodes, summary->nodes);
	atomic_store(&figures->series, summary->series);
	atomic_store(&figures->oldest_ns, summary->oldest_ns);
	atomic_store(&figures->newest_ns, summary->newest_ns);
	atomic_store(&figures->memory_bytes, partition_memory(partition));
	atomic_store(&figures->damaged, partition->damage[0] != '\0');
	atomic_store(&figures->tombstones,
		     partition->tombstones ? partition->tombstones->count : 0);
	atomic_store(&figures->tombstone_series,
		     partition->tombstones ? partition->tombstones->series_count : 0);
}

void partition_evict(struct partition *partition)
{
	if (atomic_load(&partition->pins))
		return;
	forest_free(take(partition->forest));
	postings_unref(take(partition->postings));
	forest_view_unref(take(partition->view));
	partition->generation++;
	partition_publish(partition);
}

void partition_encode_merge(uint64_t resolution_ns, uint64_t sequence, struct buffer *record)
{
	buffer_append_varint(record, MERGE_FORMAT);
	buffer_append_varint(record, resolution_ns);
	buffer_append_varint(record, sequence);
}

int partition_decode_merge(struct partition *partition, struct bytes record)
{
	struct reader reader = { .at = record.at, .end = (const uint8_t *)record.at + record.size };
	uint64_t format = reader_varint(&reader), resolution_ns = reader_varint(&reader);
	uint64_t sequence = reader_varint(&reader);

	if (reader.failed || format != MERGE_FORMAT || resolution_ns > MINUTE_NS)
		return -EBADMSG;
	partition->figures.resolution_ns = resolution_ns;
	partition->merge_begun = !sequence;
	return 0;
}

int partition_summary_decode(struct bytes record, struct partition_summary *ret_summary)
{
	struct reader reader = { .at = record.at, .end = (const uint8_t *)record.at + record.size };
	uint64_t format = reader_varint(&reader);
	struct partition_summary summary = { .nodes = reader_varint(&reader) };

	summary.series = reader_varint(&reader);
	summary.oldest_ns = reader_varint(&reader);
	summary.newest_ns = reader_varint(&reader);
	if (reader.failed || format != PARTITION_FORMAT)
		return -EBADMSG;
	*ret_summary = summary;
	return 0;
}
