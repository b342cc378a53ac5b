/* A closed-loop load generator: kept HTTP/1.1 connections on epoll, one thread, each sends its next request when it has the answer.
 *
 * Usage: load PORT CONNECTIONS WARMUP_S SECONDS MAX_REQUESTS STAGGER_US REQUEST_FILE. After the warm-up it prints "warm", waits
 * for a line on standard input, measures for SECONDS (or MAX_REQUESTS, 0: no limit), lets what is in flight end, and prints one
 * JSON object: everything in it belongs to the measured part. Connection i starts i * STAGGER_US late, so that streams with
 * equal gaps do not tick together. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 16384, READ_MAX = 262144 };
enum state { IDLE, HEAD, LENGTH, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER };

typedef struct {
    int fd, seen_first, closing, last_was_newline, status;
    enum state state;
    size_t head_len, left;
    char head[HEAD_MAX];
    uint64_t sent_ns, event_ns;
} connection;

typedef struct {
    uint64_t *at;
    size_t len, capacity;
} series;

static connection *connections;
static int num_connections, epoll_fd, num_busy;
static struct sockaddr_in address;
static char *request, first_error[256];
static size_t request_size;
static uint64_t num_started, num_done, num_events, num_bytes, num_errors, num_connects, max_requests, end_ns;
static series latencies, firsts, gaps;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void note(series *s, uint64_t value) {
    if (s->len == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 65536;
        s->at = realloc(s->at, s->capacity * sizeof *s->at);
    }
    s->at[s->len++] = value;
}

static void connect_to(int index) {
    connection *c = &connections[index];
    int one = 1, size = 400 << 10;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address)) {
        perror("load: connect");
        exit(1);
    }
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)index};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
    num_connects++;
}

static void fail(int index, const char *why) {
    connection *c = &connections[index];
    num_errors++;
    if (!first_error[0])
        for (size_t i = 0, n = (size_t)snprintf(first_error, sizeof first_error, "%s: %.100s", why, c->head); i < n && i < 255; i++)
            if (first_error[i] < ' ' || first_error[i] == '"' || first_error[i] == '\\')
                first_error[i] = ' ';
    close(c->fd);
    connect_to(index);
    c->state = IDLE;
    num_busy--;
}

static void send_request(int index) {
    connection *c = &connections[index];
    const char *data = request;
    size_t left = request_size;
    if (now_ns() >= end_ns || (max_requests && num_started >= max_requests))
        return;
    num_started++;
    num_busy++;
    c->state = HEAD;
    c->head_len = 0;
    c->seen_first = c->last_was_newline = c->closing = 0;
    c->sent_ns = now_ns();
    c->event_ns = 0;
    while (left) {
        ssize_t n = send(c->fd, data, left, MSG_NOSIGNAL);
        if (n > 0) {
            data += n;
            left -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            struct pollfd waiting = {.fd = c->fd, .events = POLLOUT};
            poll(&waiting, 1, 1000);
        } else {
            fail(index, "send failed");
            return;
        }
    }
}

static void done(int index) {
    connection *c = &connections[index];
    note(&latencies, now_ns() - c->sent_ns);
    num_busy--;
    num_done++;
    c->state = IDLE;
    if (c->closing) {
        close(c->fd);
        connect_to(index);
    }
    send_request(index);
}

static void event_ended(connection *c) {
    uint64_t now = now_ns();
    num_events++;
    if (c->event_ns)
        note(&gaps, now - c->event_ns);
    c->event_ns = now;
}

/* An event ends with an empty line; chunk borders have carriage returns and cannot be taken for one. */
static void count_events(connection *c, const char *data, size_t size) {
    for (const char *at = data, *end = data + size; at < end; at++) {
        at = memchr(at, '\n', (size_t)(end - at));
        if (!at) {
            c->last_was_newline = 0;
            return;
        }
        if (at == data ? c->last_was_newline : at[-1] == '\n')
            event_ended(c);
    }
    c->last_was_newline = size && data[size - 1] == '\n';
}

static int parse_head(connection *c) {
    c->head[c->head_len] = 0;
    const char *length = strcasestr(c->head, "\r\ncontent-length:");
    c->status = (int)strtol(c->head + 9, NULL, 10);
    c->closing = strcasestr(c->head, "\r\nconnection: close") != NULL;
    if (strcasestr(c->head, "\r\ntransfer-encoding: chunked")) {
        c->state = CHUNK_SIZE;
        c->left = 0;
    } else if (length) {
        c->state = LENGTH;
        c->left = strtoul(length + 17, NULL, 10);
    } else {
        return 0;
    }
    return c->status == 200;
}

static size_t take_head(connection *c, const char *data, size_t size) {
    size_t i = 0;
    while (i < size && c->head_len < HEAD_MAX - 1) {
        c->head[c->head_len++] = data[i++];
        if (c->head_len >= 4 && !memcmp(c->head + c->head_len - 4, "\r\n\r\n", 4))
            return i;
    }
    c->head[c->head_len] = 0;
    return 0; /* not whole yet */
}

static void body_began(connection *c) {
    if (!c->seen_first) {
        c->seen_first = 1;
        note(&firsts, now_ns() - c->sent_ns);
    }
}

static void feed(int index, const char *data, size_t size) {
    connection *c = &connections[index];
    size_t i = 0;
    num_bytes += size;
    while (i < size) {
        size_t n;
        switch (c->state) {
        case HEAD:
            if (!(n = take_head(c, data + i, size - i)))
                return;
            i += n;
            if (!parse_head(c)) {
                fail(index, "refused");
                return;
            }
            if (c->state == LENGTH && !c->left)
                done(index);
            break;
        case LENGTH:
        case CHUNK:
            body_began(c);
            n = c->left < size - i ? c->left : size - i;
            if (c->state == CHUNK)
                count_events(c, data + i, n);
            c->left -= n;
            i += n;
            if (!c->left) {
                if (c->state == LENGTH)
                    done(index);
                else
                    c->state = CHUNK_END;
            }
            break;
        case CHUNK_END: /* the line end after a chunk's data */
            if (data[i++] == '\n') {
                c->state = CHUNK_SIZE;
                c->left = 0;
            }
            break;
        case CHUNK_SIZE: {
            char digit = data[i++];
            if (digit == '\n')
                c->state = c->left ? CHUNK : TRAILER;
            else if (digit != '\r')
                c->left = c->left * 16 + (size_t)(digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10);
            break;
        }
        case TRAILER:
            if (data[i++] == '\n')
                done(index);
            break;
        default:
            fail(index, "bytes that belong to no answer");
            return;
        }
    }
}

static void readable(int index) {
    static char buffer[READ_MAX];
    connection *c = &connections[index];
    ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
    if (n > 0)
        feed(index, buffer, (size_t)n);
    else if (n == 0 || errno != EAGAIN) {
        if (c->state == IDLE) { /* closed while it was idle */
            close(c->fd);
            connect_to(index);
        } else {
            fail(index, "the connection broke");
            send_request(index);
        }
    }
}

static void drive(double seconds, uint64_t limit, uint64_t stagger_ns) {
    struct epoll_event events[256];
    uint64_t begun = now_ns();
    int next = 0;
    end_ns = begun + (uint64_t)(seconds * 1e9);
    max_requests = limit;
    num_started = num_done = num_events = num_bytes = num_errors = 0;
    latencies.len = firsts.len = gaps.len = 0;
    while (next < num_connections || num_busy) {
        while (next < num_connections && now_ns() >= begun + (uint64_t)next * stagger_ns)
            send_request(next++);
        int n = epoll_wait(epoll_fd, events, 256, next < num_connections ? 0 : 1000);
        for (int i = 0; i < n; i++)
            readable((int)events[i].data.u32);
    }
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double percentile_us(series *s, double part) {
    return s->len ? (double)s->at[(size_t)((double)(s->len - 1) * part)] / 1e3 : 0;
}

static void report(double seconds, double cpu_s) {
    qsort(latencies.at, latencies.len, sizeof *latencies.at, compare);
    qsort(firsts.at, firsts.len, sizeof *firsts.at, compare);
    qsort(gaps.at, gaps.len, sizeof *gaps.at, compare);
    printf("{\"requests\":%lu,\"errors\":%lu,\"error\":\"%s\",\"events\":%lu,\"bytes\":%lu,\"connects\":%lu,\"seconds\":%.6f,\"load_cpu_s\":%.6f,"
           "\"p50_us\":%.1f,\"p99_us\":%.1f,\"first_p50_us\":%.1f,\"first_p99_us\":%.1f,\"gap_p50_us\":%.1f,\"gap_p99_us\":%.1f}\n",
           num_done, num_errors, first_error, num_events, num_bytes, num_connects, seconds, cpu_s, percentile_us(&latencies, .5),
           percentile_us(&latencies, .99), percentile_us(&firsts, .5), percentile_us(&firsts, .99),
           percentile_us(&gaps, .5), percentile_us(&gaps, .99));
}

static double cpu_now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void read_request(const char *path) {
    struct stat status;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &status)) {
        perror(path);
        exit(1);
    }
    request = malloc((size_t)status.st_size);
    request_size = (size_t)read(fd, request, (size_t)status.st_size);
    close(fd);
}

int main(int argc, char **argv) {
    char line[16];
    if (argc != 8) {
        fprintf(stderr, "usage: load PORT CONNECTIONS WARMUP_S SECONDS MAX_REQUESTS STAGGER_US REQUEST_FILE\n");
        return 2;
    }
    address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    num_connections = atoi(argv[2]);
    uint64_t stagger_ns = strtoull(argv[6], NULL, 10) * 1000;
    read_request(argv[7]);
    connections = calloc((size_t)num_connections, sizeof *connections);
    epoll_fd = epoll_create1(0);
    for (int i = 0; i < num_connections; i++)
        connect_to(i);
    drive(atof(argv[3]), 0, stagger_ns);
    printf("warm\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 1;
    double cpu_s = cpu_now_s();
    uint64_t begun = now_ns();
    drive(atof(argv[4]), strtoull(argv[5], NULL, 10), stagger_ns);
    uint64_t ended = now_ns();
    cpu_s = cpu_now_s() - cpu_s;
    report((double)(ended - begun) / 1e9, cpu_s);
    return 0;
}
