// SPDX-License-Identifier: Apache-2.0
// A program that goes through many of its libc's functions, for step_stack.

#include <ctype.h>
#include <fnmatch.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <regex.h>
#include <search.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static jmp_buf place;
static volatile double sum;

static int compare(const void *left, const void *right)
{
	return *(const int *)left - *(const int *)right;
}

static void __attribute__((noinline)) aligned(int depth)
{
	volatile char space[depth * 100 + 1];
	volatile char vector[64] __attribute__((aligned(64))) = { 0 };

	space[depth] = vector[1];
	if (depth)
		aligned(depth - 1);
}

static void __attribute__((noinline)) jump(int depth)
{
	if (!depth)
		longjmp(place, 1);
	jump(depth - 1);
	sum += 1;
}

static void strings(void)
{
	char text[256], *end;
	regex_t pattern;

	snprintf(text, sizeof(text), "%d %5.3f %s %lx %c %e %ls", 1, 3.25, "text", 255L, 'c', 1e10,
		 L"wide");
	sum += strtod("3.25e10", &end) + (double)strtoul("0x77", NULL, 0);
	sscanf("12 3.5 word", "%*d %*f %31s", text);
	if (regcomp(&pattern, "^(a|b)*c[a-z]+$", REG_EXTENDED) == 0) {
		sum += regexec(&pattern, "ababcxyz", 0, NULL, 0);
		regfree(&pattern);
	}
	sum += fnmatch("*.[ch]", "file.c", 0) + strstr("long text", "tex")[0] + toupper('a');
	sum += (double)strlen(text) + memcmp(text, "x", 1) + strcoll("a", "b");
}

static void memory(void)
{
	int numbers[40];
	void *blocks[20];

	for (int i = 0; i < 40; i++)
		numbers[i] = i * 7919 % 211;
	qsort(numbers, 40, sizeof(int), compare);
	for (int i = 0; i < 20; i++)
		blocks[i] = calloc(1, (size_t)(i * i * 2 + 1));
	for (int i = 0; i < 20; i++)
		blocks[i] = realloc(blocks[i], (size_t)(i * 100 + 1));
	for (int i = 0; i < 20; i += 2)
		free(blocks[i]);
	hcreate(20);
	hsearch((ENTRY){ .key = "key" }, ENTER);
}

static void numbers(void)
{
	for (double x = 0.1; x < 20; x *= 5)
		sum += sin(x) + exp(x) + pow(x, 1.5) + log(x) + atan2(x, 2) + cbrt(x) +
		       fmod(x, 0.3);
}

static void times(void)
{
	time_t now = 1000000000;
	char text[100];

	strftime(text, sizeof(text), "%c %j", gmtime(&now));
	strftime(text, sizeof(text), "%F %T", localtime(&now));
	setlocale(LC_ALL, "C.UTF-8");
	sum += (double)mktime(gmtime(&now)) + mbstowcs(NULL, "wide", 0);
}

static void files(void)
{
	FILE *file = tmpfile();
	char line[100];

	if (!file)
		return;
	for (int i = 0; i < 20; i++)
		fprintf(file, "line %d\n", i);
	rewind(file);
	while (fgets(line, sizeof(line), file))
		sum += atoi(line + 5);
	fclose(file);
	sum += getenv("HOME") != NULL;
}

int main(void)
{
	aligned(5);
	if (!setjmp(place))
		jump(5);
	strings();
	memory();
	numbers();
	times();
	files();
	printf("%d\n", sum > 0);
	return 0;
}
