// SPDX-License-Identifier: Apache-2.0
#include "base/config/config.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/version.h"

enum {
	// getopt_long()'s numbers for flags: the position in the table, above all letters.
	FLAG_FIRST = 1000,
	FLAG_CONFIG = 900,
	FLAG_VERSION = 901,
	FLAG_HELP = 902,
	HELP_LETTER = 'h', // built in: no setting may have it
	FLAGS_MAX = 1024,  // on one command line
};

// A flag as it was given, applied only once file and environment have been read.
struct flag {
	const struct config_option *option;
	const char *text;
};

// The command line, taken apart.
struct flags {
	struct flag *given;
	uint32_t count;
	const char *file; // --config, or NULL
	bool wants_help;
	bool wants_version;
};

static void flags_deinit(struct flags *flags)
{
	free(flags->given);
}

// ---- the command line -----------------------------------------------------------------------

static int argument_mode(const struct config_option *option)
{
	return option->kind == CONFIG_BOOL ? optional_argument : required_argument;
}

// getopt_long()'s view of the table. The letters begin with ':', so that a missing argument is
// distinct from an unknown flag.
static int build_getopt_tables(const struct config_program *program, struct option **ret_options,
			       char **ret_letters)
{
	_cleanup_free_ struct option *options = calloc(program->option_count + 4, sizeof(*options));
	_cleanup_free_ char *letters = calloc(program->option_count + 2, 2);

	if (!options || !letters)
		return -ENOMEM;

	struct option *option = options;
	char *letter = letters;
	*letter++ = ':';
	*letter++ = HELP_LETTER;
	for (uint32_t i = 0; i < program->option_count; i++) {
		const struct config_option *setting = &program->options[i];

		*option++ = (struct option){ setting->name, argument_mode(setting), NULL,
					     FLAG_FIRST + (int)i };
		if (setting->letter)
			*letter++ = setting->letter;
		if (setting->letter && setting->kind != CONFIG_BOOL)
			*letter++ = ':';
	}
	*option++ = (struct option){ "config", required_argument, NULL, FLAG_CONFIG };
	*option++ = (struct option){ "help", no_argument, NULL, FLAG_HELP };
	*option++ = (struct option){ "version", no_argument, NULL, FLAG_VERSION };
	*ret_options = take(options);
	*ret_letters = take(letters);
	return 0;
}

static const struct config_option *find_flag(const struct config_program *program, int code)
{
	if (code >= FLAG_FIRST)
		return &program->options[code - FLAG_FIRST];
	for (uint32_t i = 0; i < program->option_count; i++) {
		if (program->options[i].letter == code)
			return &program->options[i];
	}
	return NULL;
}

// getopt_long() leaves in optopt: 0 for an unknown word, the number of a flag that takes no value
// but was given one, or an unknown letter.
static int refuse_flag(const struct config_program *program, const char *word, struct error *err)
{
	char name[CONFIG_NAME_BYTES];

	if (optopt >= FLAG_CONFIG)
		return error_set(err, -EINVAL, "%.60s: this flag takes no value", word);
	if (optopt)
		return error_set(err, -EINVAL, "there is no flag -%c; %s --help lists them", optopt,
				 program->name);
	snprintf(name, sizeof(name), "%s", word);
	name[strcspn(name, "=")] = 0;
	return config_unknown(program, "command line", name, err);
}

static int keep_flag(struct flags *flags, const struct config_option *option, struct error *err)
{
	if (flags->count == FLAGS_MAX)
		return error_set(err, -E2BIG, "more than %d flags on the command line", FLAGS_MAX);
	if (flags->count % 16 == 0) {
		struct flag *larger =
			reallocarray(flags->given, flags->count + 16, sizeof(*flags->given));
		if (!larger)
			return error_errno(err, -ENOMEM, "command line");
		flags->given = larger;
	}
	flags->given[flags->count++] =
		(struct flag){ .option = option, .text = optarg ? optarg : "true" };
	return 0;
}

static int read_flag(const struct config_program *program, int code, char **argv,
		     struct flags *flags, struct error *err)
{
	switch (code) {
	case FLAG_CONFIG:
		flags->file = optarg;
		return 0;
	case FLAG_VERSION:
		flags->wants_version = true;
		return 0;
	case FLAG_HELP:
	case HELP_LETTER:
		flags->wants_help = true;
		return 0;
	case ':':
		return error_set(err, -EINVAL, "%.60s: a value is missing after it",
				 argv[optind - 1]);
	case '?':
		return refuse_flag(program, argv[optind - 1], err);
	}

	return keep_flag(flags, find_flag(program, code), err);
}

static int read_flags(const struct config_program *program, int argc, char **argv,
		      struct flags *flags, struct error *err)
{
	_cleanup_free_ struct option *options = NULL;
	_cleanup_free_ char *letters = NULL;
	int rc = build_getopt_tables(program, &options, &letters);
	int code;

	if (rc < 0)
		return error_errno(err, rc, "command line");
	optind = 0; // glibc: begin anew
	opterr = 0;
	while (rc == 0 && (code = getopt_long(argc, argv, letters, options, NULL)) != -1)
		rc = read_flag(program, code, argv, flags, err);
	return rc;
}

// ---- the sources, in order --------------------------------------------------------------------

static int set_defaults(const struct config_program *program, struct error *err)
{
	for (uint32_t i = 0; i < program->option_count; i++) {
		const struct config_option *option = &program->options[i];
		int rc = 0;

		if (option->default_text)
			rc = config_set_list(option, option->name, option->default_text, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static void environment_name(const char *name, char ret_name[CONFIG_NAME_BYTES])
{
	snprintf(ret_name, CONFIG_NAME_BYTES, "CAIRN_%s", name);
	for (char *c = ret_name; *c; c++)
		*c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

static int read_environment(const struct config_program *program, struct error *err)
{
	for (uint32_t i = 0; i < program->option_count; i++) {
		char name[CONFIG_NAME_BYTES];

		environment_name(program->options[i].name, name);
		const char *text = getenv(name);
		int rc = text && *text ? config_set_list(&program->options[i], name, text, err) : 0;
		if (rc < 0)
			return rc;
	}
	return 0;
}

#define PREFIX "CAIRN_"

// "CAIRN_SPOOL_SIZE=1": spool-size. False: no variable of cairn, or longer than any setting.
static bool read_variable(const char *variable, char ret_name[CONFIG_NAME_BYTES])
{
	size_t length = strcspn(variable, "=");

	if (strncmp(variable, PREFIX, strlen(PREFIX)) != 0 ||
	    length >= strlen(PREFIX) + CONFIG_NAME_BYTES)
		return false;
	length -= strlen(PREFIX);
	for (size_t i = 0; i < length; i++) {
		char c = variable[strlen(PREFIX) + i];

		ret_name[i] = c == '_' ? '-' : (char)tolower((unsigned char)c);
	}
	ret_name[length] = '\0';
	return true;
}

void config_warn_of_slips(const struct config_program *program, char *const *variables,
			  FILE *stream)
{
	char name[CONFIG_NAME_BYTES], meant[CONFIG_NAME_BYTES];

	for (; *variables; variables++) {
		const struct config_option *option;

		if (!read_variable(*variables, name) || config_find(program, name) ||
		    !(option = config_slip_of(program, name)))
			continue;
		environment_name(option->name, meant);
		fprintf(stream, "%s: warning: the variable %.*s sets nothing; did you mean %s?\n",
			program->name, (int)strcspn(*variables, "="), *variables, meant);
	}
}

static int apply_flags(const struct flags *flags, struct error *err)
{
	for (uint32_t i = 0; i < flags->count; i++) {
		const struct flag *flag = &flags->given[i];
		char where[CONFIG_NAME_BYTES];

		snprintf(where, sizeof(where), "--%s", flag->option->name);
		int rc = config_set(flag->option, where, flag->text, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int read_sources(const struct config_program *program, const struct flags *flags,
			struct error *err)
{
	const char *file = flags->file ? flags->file : getenv("CAIRN_CONFIG");
	int rc = set_defaults(program, err);

	if (rc == 0 && file && *file)
		rc = config_read_file(program, file, err);
	if (rc == 0)
		rc = read_environment(program, err);
	return rc < 0 ? rc : apply_flags(flags, err);
}

int config_parse(const struct config_program *program, int argc, char **argv,
		 enum config_outcome *ret_outcome, int *ret_first_word, struct error *err)
{
	_cleanup_(flags_deinit) struct flags flags = { 0 };
	int rc = read_flags(program, argc, argv, &flags, err);

	if (rc < 0)
		return rc;
	if (flags.wants_help) {
		config_print_help(program, stdout);
		*ret_outcome = CONFIG_EXIT;
		return 0;
	}
	if (flags.wants_version) {
		printf("%s %s\n", program->name, CAIRN_VERSION);
		*ret_outcome = CONFIG_EXIT;
		return 0;
	}

	int first_word = optind;
	rc = read_sources(program, &flags, err);
	if (rc < 0)
		return rc;
	config_warn_of_slips(program, environ, stderr);
	*ret_outcome = CONFIG_RUN;
	*ret_first_word = first_word;
	return 0;
}
