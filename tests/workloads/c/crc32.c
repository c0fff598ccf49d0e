/* CRC-32 as in zip and Ethernet (reflected, polynomial 0xedb88320). */
#include "copier.h"

static uint32_t remainders[256];

static void compute_remainders(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++) {
            value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
        }
        remainders[byte] = value;
    }
}

/* The checksum of bytes with the checksum `before`, followed by these bytes. The checksum of no bytes is 0. */
uint32_t crc32_of(uint32_t before, const void *bytes, size_t count) {
    if (remainders[1] == 0) {
        compute_remainders();
    }
    uint32_t value = ~before;
    for (const unsigned char *byte = bytes; count > 0; byte++, count--) {
        value = value >> 8 ^ remainders[(value ^ *byte) & 0xff];
    }
    return ~value;
}
