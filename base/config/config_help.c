// SPDX-License-Identifier: Apache-2.0
// --help, written from the table of settings.
#include "base/config/config.h"

#include <string.h>

enum {
	HELP_COLUMN = 28, // where the sentences begin
	HELP_WIDTH = 100,
	FLAG_BYTES = 96,
};

static const struct config_option built_in[] = {
	{ .name = "config",
	  .argument = "FILE",
	  .kind = CONFIG_STRING,
	  .help = "read settings from this YAML file" },
	{ .name = "help", .letter = 'h', .kind = CONFIG_BOOL, .help = "print this and exit" },
	{ .name = "version", .kind = CONFIG_BOOL, .help = "print the version and exit" },
};

// Words up to the line's width, then a new line under the first word.
static void print_wrapped(FILE *stream, const char *text, int column)
{
	int at = column;

	while (*text) {
		size_t size = strcspn(text, " ");

		if (at > column && at + 1 + (int)size > HELP_WIDTH) {
			fprintf(stream, "\n%*s", column, "");
			at = column;
		}
		if (at > column) {
			fputc(' ', stream);
			at++;
		}
		fwrite(text, 1, size, stream);
		at += (int)size;
		text += size;
		text += strspn(text, " ");
	}
	fputc('\n', stream);
}

static void print_option(FILE *stream, const struct config_option *option)
{
	char flag[FLAG_BYTES];
	char sentence[1024];
	char letter[] = { '-', option->letter, ',', ' ', 0 };

	snprintf(flag, sizeof(flag), "  %s--%s%s%s", option->letter ? letter : "    ", option->name,
		 option->argument ? " " : "", option->argument ? option->argument : "");
	snprintf(sentence, sizeof(sentence), "%s%s%s%s", option->help,
		 option->default_text && *option->default_text ? " (default " : "",
		 option->default_text ? option->default_text : "",
		 option->default_text && *option->default_text ? ")" : "");

	fprintf(stream, "%-*s", HELP_COLUMN, flag);
	if (strlen(flag) >= HELP_COLUMN)
		fprintf(stream, "\n%*s", HELP_COLUMN, "");
	print_wrapped(stream, sentence, HELP_COLUMN);
}

void config_print_help(const struct config_program *program, FILE *stream)
{
	if (program->usage)
		fprintf(stream, "Usage: %s\n\n", program->usage);
	else
		fprintf(stream, "Usage: %s [OPTIONS]\n\n", program->name);
	print_wrapped(stream, program->summary, 0);
	fprintf(stream, "\nOptions:\n");
	for (uint32_t i = 0; i < program->option_count; i++)
		print_option(stream, &program->options[i]);
	for (size_t i = 0; i < sizeof(built_in) / sizeof(built_in[0]); i++)
		print_option(stream, &built_in[i]);
	fprintf(stream, "\n");
	print_wrapped(
		stream,
		"Settings have the same names in the file (--some-name 5s is \"some-name: 5s\") "
		"and in the environment (CAIRN_SOME_NAME=5s). Flags win over the environment, "
		"the environment over the file.",
		0);
	if (program->notes)
		fprintf(stream, "\n%s%s", program->notes,
			program->notes[strlen(program->notes) - 1] == '\n' ? "" : "\n");
}
