/* SPDX-License-Identifier: Apache-2.0
 * What an image says about itself, line by line to the board's log. */
#include "npuscope_loader.h"
#include "npuscope_platform.h"

#define LINE_BYTES 80u

static uint32_t put_text(char *line, uint32_t at, const char *text) {
  /* A name is foreign text: what does not print could end or rewrite a line of the log. */
  for (; *text && at < LINE_BYTES - 1; text++)
    line[at++] = *text < ' ' || *text > '~' ? '?' : *text;
  return at;
}

static uint32_t put_number(char *line, uint32_t at, uint32_t value) {
  char digits[11];
  uint32_t first = sizeof digits - 1;
  digits[first] = 0;
  do digits[--first] = (char)('0' + value % 10);
  while (value /= 10);
  return put_text(line, at, digits + first);
}

static void log_text(const char *label, const char *text) {
  char line[LINE_BYTES];
  line[put_text(line, put_text(line, 0, label), text)] = 0;
  npuscope_loader_print(line);
}

static void log_number(const char *label, uint32_t value) {
  char line[LINE_BYTES];
  line[put_number(line, put_text(line, 0, label), value)] = 0;
  npuscope_loader_print(line);
}

static void log_version(uint32_t version, uint32_t extra) {
  char line[LINE_BYTES];
  uint32_t at = put_number(line, put_text(line, 0, "runtime: "), version >> 24);
  at = put_number(line, put_text(line, at, "."), version >> 16 & 0xFFu);
  at = put_number(line, put_text(line, at, "."), version >> 8 & 0xFFu);
  at = put_number(line, put_text(line, at, "-"), extra);
  line[at] = 0;
  npuscope_loader_print(line);
}

void ll_aton_reloc_log_info(uintptr_t file_ptr) {
  ll_aton_reloc_info info;
  if (ll_aton_reloc_get_info(file_ptr, &info)) {
    log_text("not a usable image: ", npuscope_loader_reason());
    return;
  }
  log_text("network: ", info.c_name);
  log_version(info.rt_version, info.rt_version_extra);
  log_number("code bytes: ", info.code_sz);
  log_number("parameter bytes: ", info.params_sz);
  log_number("activation bytes: ", info.acts_sz);
  log_number("external RAM bytes: ", info.ext_ram_sz);
  log_number("RAM bytes in place: ", info.rt_ram_xip);
  log_number("RAM bytes copied: ", info.rt_ram_copy);
  log_text("checksum: ", info.npuscope_has_trailer ? "right" : "none in this file");
}
