// The exit codes of the command line that are not the supervisor's.

/** Everything was scanned and is clean. */
export const EXIT_CLEAN = 0;
/** A signature matched. */
export const EXIT_INFECTED = 1;
/** Nothing matched, but something was not or not wholly looked at. Bad usage ends with it as well. */
export const EXIT_FAILED = 2;
/** sysexits.h EX_SOFTWARE: a bug. */
export const EXIT_SOFTWARE = 70;
/** What a shell reports of a command that signal n ended, plus n. */
export const EXIT_SIGNAL_BASE = 128;
