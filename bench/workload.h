/* SPDX-License-Identifier: MIT */
/*
 * workload: what `dropbehind bench` can run.
 */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

/* Exit statuses of a workload. */
#define WORKLOAD_GOOD 0
#define WORKLOAD_FAILED 1 /* the machine, a contender, or a wrong file */
#define WORKLOAD_USAGE 2 /* the command line */
#define WORKLOAD_STOPPED 130 /* by a signal */

/**
 * interleaved_main, noisy_main - `dropbehind bench interleaved`, and so on
 * @argv: argv[0] is the workload's name
 * Return: an exit status.
 */
int interleaved_main(int argc, char **argv);
int noisy_main(int argc, char **argv);

/** interleaved_help, noisy_help - what `--help` prints, on standard output. */
void interleaved_help(void);
void noisy_help(void);

#endif
