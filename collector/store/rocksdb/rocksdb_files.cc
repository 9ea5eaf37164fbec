// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/rocksdb_files.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <new>

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

using namespace ROCKSDB_NAMESPACE;

namespace
{

/** Whether a write has failed, and why. */
class Failure
{
      public:
	bool happened() const
	{
		return happened_.load(std::memory_order_acquire);
	}

	/** Do @write unless one failed before. Success for RocksDB in any case. */
	template <typename Write> IOStatus guard(Write write)
	{
		if (happened())
			return IOStatus::OK();
		IOStatus status = write();
		if (!status.ok())
			note(status);
		return IOStatus::OK();
	}

	void note(const IOStatus &status)
	{
		std::lock_guard<std::mutex> lock(mutex_);

		if (!happened_.load(std::memory_order_relaxed)) {
			snprintf(text_, sizeof(text_), "%s", status.ToString().c_str());
			happened_.store(true, std::memory_order_release);
		}
	}

	bool read(char text[DB_FILES_TEXT_BYTES])
	{
		if (!happened())
			return false;
		memcpy(text, text_, sizeof(text_)); // set once, before happened_
		return true;
	}

      private:
	std::atomic<bool> happened_{ false };
	std::mutex mutex_;
	char text_[DB_FILES_TEXT_BYTES] = "";
};

/** A file that is written. @target is NULL where it could not be opened. */
class GuardedFile : public FSWritableFile
{
      public:
	GuardedFile(std::unique_ptr<FSWritableFile> target, std::shared_ptr<Failure> failure,
		    const FileOptions &options)
	    : FSWritableFile(options), target_(std::move(target)), failure_(std::move(failure))
	{
	}

	using FSWritableFile::Append;
	using FSWritableFile::PositionedAppend;

	IOStatus Append(const Slice &data, const IOOptions &options, IODebugContext *debug) override
	{
		size_ += data.size();
		return failure_->guard([&] { return target_->Append(data, options, debug); });
	}
	IOStatus Append(const Slice &data, const IOOptions &options, const DataVerificationInfo &,
			IODebugContext *debug) override
	{
		return Append(data, options, debug);
	}
	IOStatus PositionedAppend(const Slice &data, uint64_t offset, const IOOptions &options,
				  IODebugContext *debug) override
	{
		if (offset + data.size() > size_)
			size_ = offset + data.size();
		return failure_->guard(
			[&] { return target_->PositionedAppend(data, offset, options, debug); });
	}
	IOStatus PositionedAppend(const Slice &data, uint64_t offset, const IOOptions &options,
				  const DataVerificationInfo &, IODebugContext *debug) override
	{
		return PositionedAppend(data, offset, options, debug);
	}
	IOStatus Truncate(uint64_t size, const IOOptions &options, IODebugContext *debug) override
	{
		size_ = size;
		return failure_->guard([&] { return target_->Truncate(size, options, debug); });
	}
	IOStatus Close(const IOOptions &options, IODebugContext *debug) override
	{
		if (!target_)
			return IOStatus::OK();
		// Also when frozen: the descriptor goes.
		IOStatus status = target_->Close(options, debug);
		if (!status.ok())
			failure_->note(status);
		return IOStatus::OK();
	}
	IOStatus Flush(const IOOptions &options, IODebugContext *debug) override
	{
		return failure_->guard([&] { return target_->Flush(options, debug); });
	}
	IOStatus Sync(const IOOptions &options, IODebugContext *debug) override
	{
		return failure_->guard([&] { return target_->Sync(options, debug); });
	}
	IOStatus Fsync(const IOOptions &options, IODebugContext *debug) override
	{
		return failure_->guard([&] { return target_->Fsync(options, debug); });
	}
	IOStatus RangeSync(uint64_t offset, uint64_t size, const IOOptions &options,
			   IODebugContext *debug) override
	{
		return failure_->guard(
			[&] { return target_->RangeSync(offset, size, options, debug); });
	}
	/** Room ahead of a write is a hint: the write itself reports a full disk. */
	IOStatus Allocate(uint64_t offset, uint64_t size, const IOOptions &options,
			  IODebugContext *debug) override
	{
		if (!failure_->happened())
			target_->Allocate(offset, size, options, debug).PermitUncheckedError();
		return IOStatus::OK();
	}
	IOStatus InvalidateCache(size_t offset, size_t size) override
	{
		if (target_)
			target_->InvalidateCache(offset, size).PermitUncheckedError();
		return IOStatus::OK();
	}
	bool IsSyncThreadSafe() const override
	{
		return true;
	}
	uint64_t GetFileSize(const IOOptions &options, IODebugContext *debug) override
	{
		return failure_->happened() ? size_.load() : target_->GetFileSize(options, debug);
	}
	void SetWriteLifeTimeHint(Env::WriteLifeTimeHint hint) override
	{
		if (target_)
			target_->SetWriteLifeTimeHint(hint);
	}

      private:
	std::unique_ptr<FSWritableFile> target_;
	std::shared_ptr<Failure> failure_;
	std::atomic<uint64_t> size_{ 0 };
};

/** A directory that is synced. */
class GuardedDirectory : public FSDirectory
{
      public:
	GuardedDirectory(std::unique_ptr<FSDirectory> target, std::shared_ptr<Failure> failure)
	    : target_(std::move(target)), failure_(std::move(failure))
	{
	}
	IOStatus Fsync(const IOOptions &options, IODebugContext *debug) override
	{
		return failure_->guard([&] { return target_->Fsync(options, debug); });
	}
	IOStatus FsyncWithDirOptions(const IOOptions &options, IODebugContext *debug,
				     const DirFsyncOptions &how) override
	{
		return failure_->guard(
			[&] { return target_->FsyncWithDirOptions(options, debug, how); });
	}
	IOStatus Close(const IOOptions &options, IODebugContext *debug) override
	{
		return target_ ? target_->Close(options, debug) : IOStatus::OK();
	}

      private:
	std::unique_ptr<FSDirectory> target_;
	std::shared_ptr<Failure> failure_;
};

class GuardedFileSystem : public FileSystemWrapper
{
      public:
	GuardedFileSystem()
	    : FileSystemWrapper(FileSystem::Default()), failure(std::make_shared<Failure>())
	{
	}
	const char *Name() const override
	{
		return "GuardedFileSystem";
	}
	IOStatus NewWritableFile(const std::string &name, const FileOptions &options,
				 std::unique_ptr<FSWritableFile> *ret_file,
				 IODebugContext *debug) override
	{
		return open_file(name, options, ret_file,
				 [&](std::unique_ptr<FSWritableFile> *ret) {
					 return target_->NewWritableFile(name, options, ret, debug);
				 });
	}
	IOStatus ReopenWritableFile(const std::string &name, const FileOptions &options,
				    std::unique_ptr<FSWritableFile> *ret_file,
				    IODebugContext *debug) override
	{
		return open_file(
			name, options, ret_file, [&](std::unique_ptr<FSWritableFile> *ret) {
				return target_->ReopenWritableFile(name, options, ret, debug);
			});
	}
	IOStatus ReuseWritableFile(const std::string &name, const std::string &old_name,
				   const FileOptions &options,
				   std::unique_ptr<FSWritableFile> *ret_file,
				   IODebugContext *debug) override
	{
		return open_file(name, options, ret_file,
				 [&](std::unique_ptr<FSWritableFile> *ret) {
					 return target_->ReuseWritableFile(name, old_name, options,
									   ret, debug);
				 });
	}
	IOStatus NewDirectory(const std::string &name, const IOOptions &options,
			      std::unique_ptr<FSDirectory> *ret_directory,
			      IODebugContext *debug) override
	{
		std::unique_ptr<FSDirectory> target;
		IOStatus status = target_->NewDirectory(name, options, &target, debug);
		if (!status.ok())
			return status; // opened to be read: what is missing is missing
		ret_directory->reset(new GuardedDirectory(std::move(target), failure));
		return status;
	}
	IOStatus DeleteFile(const std::string &name, const IOOptions &options,
			    IODebugContext *debug) override
	{
		return change([&] { return target_->DeleteFile(name, options, debug); });
	}
	IOStatus Truncate(const std::string &name, size_t size, const IOOptions &options,
			  IODebugContext *debug) override
	{
		return change([&] { return target_->Truncate(name, size, options, debug); });
	}
	IOStatus CreateDir(const std::string &name, const IOOptions &options,
			   IODebugContext *debug) override
	{
		return change([&] { return target_->CreateDir(name, options, debug); });
	}
	IOStatus CreateDirIfMissing(const std::string &name, const IOOptions &options,
				    IODebugContext *debug) override
	{
		return change([&] { return target_->CreateDirIfMissing(name, options, debug); });
	}
	IOStatus DeleteDir(const std::string &name, const IOOptions &options,
			   IODebugContext *debug) override
	{
		return change([&] { return target_->DeleteDir(name, options, debug); });
	}
	IOStatus RenameFile(const std::string &from, const std::string &to,
			    const IOOptions &options, IODebugContext *debug) override
	{
		return change([&] { return target_->RenameFile(from, to, options, debug); });
	}
	IOStatus LinkFile(const std::string &from, const std::string &to, const IOOptions &options,
			  IODebugContext *debug) override
	{
		return change([&] { return target_->LinkFile(from, to, options, debug); });
	}

	/** Through NewWritableFile() above. */
	IOStatus NewLogger(const std::string &name, const IOOptions &options,
			   std::shared_ptr<Logger> *ret_logger, IODebugContext *debug) override
	{
		return FileSystem::NewLogger(name, options, ret_logger, debug);
	}

	const std::shared_ptr<Failure> failure;

      private:
	/** RocksDB's own log may end without harm. */
	static bool is_log(const std::string &name)
	{
		return name.compare(name.rfind('/') + 1, 3, "LOG") == 0;
	}

	template <typename Open>
	IOStatus open_file(const std::string &name, const FileOptions &options,
			   std::unique_ptr<FSWritableFile> *ret_file, Open open)
	{
		std::shared_ptr<Failure> noted =
			is_log(name) ? std::make_shared<Failure>() : failure;
		std::unique_ptr<FSWritableFile> target;

		if (!noted->happened()) {
			IOStatus status = open(&target);
			if (!status.ok())
				noted->note(status);
		}
		ret_file->reset(new GuardedFile(std::move(target), noted, options));
		return IOStatus::OK();
	}

	/** A name that exists or is missing is an answer, anything else a failure of the disk. */
	template <typename Change> IOStatus change(Change change)
	{
		if (failure->happened())
			return IOStatus::OK();
		IOStatus status = change();
		if (status.ok() || status.IsNotFound() || status.IsPathNotFound() ||
		    status.IsNotSupported() ||
		    status.ToString().find("File exists") != std::string::npos)
			return status;
		failure->note(status);
		return IOStatus::OK();
	}
};

} // namespace

// As RocksDB's db/c.cc has it: the C API makes none of an Env of one's own.
struct rocksdb_env_t {
	Env *rep;
	bool is_default; // of the API: not to be deleted by it
};

struct db_files {
	std::shared_ptr<GuardedFileSystem> system;
	std::unique_ptr<Env> env;
	rocksdb_env_t handle;
};

struct db_files *db_files_new(void)
{
	try {
		auto files = std::make_unique<db_files>();

		files->system = std::make_shared<GuardedFileSystem>();
		files->env = NewCompositeEnv(files->system);
		files->handle = { files->env.get(), true };
		return files.release();
	} catch (const std::bad_alloc &) {
		return nullptr;
	}
}

void db_files_free(struct db_files *files)
{
	delete files;
}

rocksdb_env_t *db_files_env(struct db_files *files)
{
	return &files->handle;
}

bool db_files_failed(struct db_files *files, char text[DB_FILES_TEXT_BYTES])
{
	return files->system->failure->read(text);
}
