// Settings from the environment, and functions by which a test changes them while it runs. See README.md.
#include "card.h"

static struct {
  int cards, capability, poison;
  size_t total_bytes;
} settings;
static int holds_events;
static unsigned long long launches, mallocs;
// The allocation that fails next (the next one is 1, none is 0), and the number of failures from there on.
static long fails_at, failures;

static void refuse(const char *name, const char *value, const char *rule) {
  fprintf(stderr, "paper card: %s=%s: %s\n", name, value, rule);
  _exit(2);
}

static int number(const char *name, int otherwise, long least, long most, const char *rule) {
  const char *value = getenv(name);
  if (!value) return otherwise;
  char *end;
  errno = 0;
  long read = strtol(value, &end, 0);
  if (errno || end == value || *end || read < least || read > most) refuse(name, value, rule);
  return (int)read;
}

// Reads a size such as 256M, and leaves `*end` behind it; negative if there is none.
static double size(const char *text, char **end) {
  double bytes = strtod(text, end);
  if (*end == text) return -1;
  const char *units = "KMGT", *unit = **end ? strchr(units, **end & ~32) : NULL;
  if (!unit) return bytes;
  ++*end;
  return bytes * (double)((size_t)1024 << 10 * (unit - units));
}

static void read_bytes(void) {
  const char *value = getenv("PAPER_CARD_BYTES");
  char *end;
  double bytes = size(value ? value : "256M", &end);
  if (bytes < 0 || *end) refuse("PAPER_CARD_BYTES", value, "not a size such as 256M");
  if (bytes < (double)PIECE) refuse("PAPER_CARD_BYTES", value, "a card has at least 2M");
  settings.total_bytes = (size_t)bytes;
}

// Reads sizes separated by commas, one for each card; the last one is that of all further cards.
static void read_taken(void) {
  const char *value = getenv("PAPER_CARD_TAKEN"), *next = value;
  for (int card = 0; value && card < MAX_CARDS; card++) {
    char *end;
    double bytes = size(next, &end);
    if (bytes < 0 || (*end && *end != ',')) refuse("PAPER_CARD_TAKEN", value, "not sizes such as 100M or 0,200M");
    cards[card].taken_bytes = (size_t)bytes;
    if (*end) next = end + 1;
  }
}

// Reads K, or K:N for N failures in a row.
static void read_failures(void) {
  const char *value = getenv("PAPER_CARD_FAIL");
  if (!value) return;
  char *end;
  fails_at = strtol(value, &end, 10);
  failures = *end == ':' ? strtol(end + 1, &end, 10) : 1;
  if (*end || fails_at < 1 || failures < 1) refuse("PAPER_CARD_FAIL", value, "neither K nor K:N, from 1 on");
}

__attribute__((constructor(101))) static void read_settings(void) {
  settings.cards = number("PAPER_CARDS", 1, 0, MAX_CARDS, "not a number of cards from 0 to 16");
  settings.capability = number("PAPER_CARD_CC", 80, 80, 90, "not a compute capability from 80 to 90");
  settings.poison = number("PAPER_CARD_POISON", -1, 0, 255, "not a byte such as 0x41");
  holds_events = number("PAPER_CARD_HOLD", 0, 0, 1, "neither 0 nor 1");
  read_bytes();
  read_taken();
  read_failures();
}

// Counts an allocation; true if it is one of the injected failures.
static int is_injected(void) {
  mallocs++;
  if (!fails_at || --fails_at) return 0;
  fails_at = --failures > 0;
  return 1;
}

// Functions that tests call, found by name.
EXPORT unsigned long long paper_launches(void) { return launches; }
EXPORT unsigned long long paper_mallocs(void) { return mallocs; }
EXPORT size_t paper_used_bytes(int card) { return cards[card].used_bytes; }
EXPORT void paper_hold_events(int holds) { holds_events = holds; }
EXPORT void paper_set_taken(int card, size_t bytes) { cards[card].taken_bytes = bytes; }
EXPORT void paper_fail_malloc(long at, long times) {
  fails_at = at;
  failures = times;
}
