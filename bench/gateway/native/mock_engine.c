/* A mock engine that costs a few microseconds a call: HTTP/1.1 on epoll, one thread, canned answers.
 *
 * Usage: mock_engine PORT (0 takes a free one; the port is printed). A chat body with "stream": true gets "max_tokens" events,
 * one each "seed" microseconds, the first at once. With x-headrace-record the answer carries a record whose prompt ids are as
 * long as the prompt asks for (four bytes of text a token), under the id that x-headrace-rid names. GET /mock/stats counts
 * what was served. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FDS = 65536, HEAD_MAX = 65536, OUTPUT_TOKENS = 100 };

typedef struct stream_slot {
    int fd;
    uint32_t generation;
} slot;

typedef struct {
    char *in;
    size_t len, capacity;
    uint32_t generation; /* changes when the descriptor is given to another connection */
    int streaming, events_left, record, close;
    uint64_t gap_ns, phase_ns;
    size_t prompt_bytes;
    char rid[128];
} connection;

static connection connections[MAX_FDS];
static int epoll_fd, timer_fd;
static uint64_t timer_at; /* 0: not armed */
static unsigned long long num_requests, num_streams, num_events, num_finished, num_lost;
static char *out; /* scratch for one answer */
static size_t out_capacity = 4 << 20;
static char *prompt_ids; /* base64 text to cut record fields from */

/* A binary heap of streams by due time: gaps may differ between streams. */
typedef struct {
    uint64_t due_ns;
    slot at;
} timer_entry;
static timer_entry *heap;
static size_t heap_len, heap_capacity;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void heap_push(timer_entry entry) {
    if (heap_len == heap_capacity) {
        heap_capacity = heap_capacity ? heap_capacity * 2 : 1024;
        heap = realloc(heap, heap_capacity * sizeof *heap);
    }
    size_t i = heap_len++;
    while (i && heap[(i - 1) / 2].due_ns > entry.due_ns) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = entry;
}

static timer_entry heap_pop(void) {
    timer_entry top = heap[0], last = heap[--heap_len];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= heap_len)
            break;
        if (child + 1 < heap_len && heap[child + 1].due_ns < heap[child].due_ns)
            child++;
        if (heap[child].due_ns >= last.due_ns)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

static void drop(int fd) {
    connection *c = &connections[fd];
    if (c->streaming)
        num_lost++;
    c->streaming = 0;
    c->len = 0;
    c->generation++;
    close(fd);
}

/* Waits for the reader where its socket is full; false where it is gone. */
static int write_all(int fd, const char *data, size_t size) {
    while (size) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            struct pollfd waiting = {.fd = fd, .events = POLLOUT};
            poll(&waiting, 1, 1000);
        } else {
            return 0;
        }
    }
    return 1;
}

static int answer(int fd, const char *body, size_t size) {
    char head[160];
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: %zu\r\n"
                     "content-type: application/json\r\n\r\n",
                     size);
    memmove(out + n, body, size); /* body may lie in out */
    memcpy(out, head, (size_t)n);
    return write_all(fd, out, (size_t)n + size);
}

static size_t base64_len(size_t num_values) { return (num_values * 4 + 2) / 3 * 4; }

static size_t write_record(char *to, const connection *c, int output_tokens) {
    size_t prompt = base64_len(c->prompt_bytes / 4 + 1), output = base64_len((size_t)output_tokens);
    return (size_t)sprintf(
        to,
        "{\"v\":1,\"rid\":\"%s\",\"model\":\"tiny\",\"engine\":{\"name\":\"sglang\",\"version\":\"0.5.23\"},\"prompt_ids\":\"%.*s\","
        "\"sampling\":{\"temperature\":1.0,\"top_p\":1.0,\"top_k\":-1,\"min_p\":0.0,\"max_new_tokens\":128},\"choices\":[{\"index\":0,"
        "\"output_ids\":\"%.*s\",\"logprobs\":\"%.*s\",\"versions\":[[\"default\",0,%d]],\"finish_reason\":\"stop\"}]}",
        c->rid, (int)prompt, prompt_ids, (int)output, prompt_ids, (int)output, prompt_ids, output_tokens);
}

static int answer_json(int fd, connection *c) {
    char *body = out + 512;
    int n = sprintf(body,
                    "{\"id\":\"%s\",\"object\":\"chat.completion\",\"created\":1767225600,\"model\":\"tiny\",\"choices\":[{\"index\":0,"
                    "\"message\":{\"role\":\"assistant\",\"content\":\"",
                    c->rid);
    memset(body + n, 'x', 300);
    n += 300;
    n += sprintf(body + n,
                 "\",\"reasoning_content\":null,\"tool_calls\":null},\"logprobs\":null,\"finish_reason\":\"stop\",\"matched_stop\":2}],"
                 "\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu,\"completion_tokens\":%d,\"prompt_tokens_details\":null}",
                 c->prompt_bytes / 4 + 1, c->prompt_bytes / 4 + 1 + OUTPUT_TOKENS, OUTPUT_TOKENS);
    if (c->record) {
        n += sprintf(body + n, ",\"headrace_record\":");
        n += (int)write_record(body + n, c, OUTPUT_TOKENS);
    }
    body[n++] = '}';
    num_finished++;
    return answer(fd, body, (size_t)n);
}

static size_t put_chunk(char *to, const char *data, size_t size) {
    int n = sprintf(to, "%zx\r\n", size);
    memcpy(to + n, data, size);
    memcpy(to + n + size, "\r\n", 2);
    return (size_t)n + size + 2;
}

static size_t put_event(char *to, const connection *c, const char *delta, const char *finish) {
    char event[512];
    int n = sprintf(event,
                    "data: {\"id\":\"%s\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\"model\":\"tiny\",\"choices\":[{"
                    "\"index\":0,\"delta\":{%s},\"logprobs\":null,\"finish_reason\":%s,\"matched_stop\":null}],\"usage\":null}\n\n",
                    c->rid, delta, finish);
    return put_chunk(to, event, (size_t)n);
}

/* The next event of a stream; with the last one comes its end. A stream keeps to its own phase of the gap, however late its start
 * or an event was: streams that fell into step would share wake-ups, and whoever is measured then would seem cheaper. */
static int stream_next(int fd, connection *c, uint64_t now) {
    size_t n = put_event(out, c, "\"content\":\" word\"", "null");
    num_events++;
    if (--c->events_left <= 0) {
        if (c->record) {
            char *record = out + out_capacity / 2;
            size_t size = (size_t)sprintf(record, "event: headrace.record\ndata: ");
            size += write_record(record + size, c, OUTPUT_TOKENS);
            size += (size_t)sprintf(record + size, "\n\n");
            n += put_chunk(out + n, record, size);
        }
        n += put_event(out + n, c, "", "\"stop\"");
        n += put_chunk(out + n, "data: [DONE]\n\n", 14);
        n += (size_t)sprintf(out + n, "0\r\n\r\n");
        c->streaming = 0;
        num_finished++;
    } else {
        uint64_t due_ns = now - now % c->gap_ns + c->phase_ns;
        heap_push((timer_entry){due_ns > now ? due_ns : due_ns + c->gap_ns, {fd, c->generation}});
    }
    return write_all(fd, out, n);
}

static long number_after(const char *body, size_t size, const char *name, long otherwise) {
    const char *at = memmem(body, size, name, strlen(name));
    return at ? strtol(at + strlen(name), NULL, 10) : otherwise;
}

static int start_stream(int fd, connection *c, const char *body, size_t size) {
    static const char head[] = "HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\nserver: uvicorn\r\n"
                               "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    c->streaming = 1;
    c->events_left = (int)number_after(body, size, "\"max_tokens\":", 100);
    c->gap_ns = (uint64_t)number_after(body, size, "\"seed\":", 5000) * 1000;
    c->phase_ns = ((uint32_t)num_streams++ * 2654435769u) * c->gap_ns >> 32; /* steps of the golden ratio: evenly spread */
    return write_all(fd, head, sizeof head - 1) && stream_next(fd, c, now_ns());
}

static int chat(int fd, connection *c, const char *body, size_t size) {
    const char *stream = memmem(body, size, "\"stream\":", 9);
    num_requests++;
    c->prompt_bytes = size;
    if (stream && memmem(stream + 9, 6, "true", 4))
        return start_stream(fd, c, body, size);
    return answer_json(fd, c);
}

static int small_answer(int fd, const char *head) {
    char text[512];
    const char *path = strchr(head, ' ') + 1;
    if (!strncmp(path, "/v1/models", 10))
        strcpy(text, "{\"object\":\"list\",\"data\":[{\"id\":\"tiny\",\"object\":\"model\",\"created\":1767225600,\"owned_by\":\"sglang\","
                     "\"root\":\"tiny\",\"parent\":null,\"max_model_len\":131072}]}");
    else if (!strncmp(path, "/v1/loads", 9))
        strcpy(text, "{\"timestamp\":\"2026-01-01T00:00:00Z\",\"version\":\"0.5.23\",\"loads\":[{\"dp_rank\":0,\"num_running_reqs\":0,"
                     "\"num_waiting_reqs\":0,\"num_total_reqs\":0,\"num_tokens\":0,\"token_usage\":0.0,\"gen_throughput\":0.0,"
                     "\"max_running_requests\":256}]}");
    else if (!strncmp(path, "/headrace/engine", 16))
        strcpy(text, "{\"engine\":{\"name\":\"sglang\",\"version\":\"0.5.23\"},\"missing_hooks\":[],\"weight_version\":\"default\","
                     "\"dtype\":\"bfloat16\",\"paused\":false,\"update\":\"\",\"num_in_flight\":0,\"num_aborted\":0,\"num_pauses_expired\":0}");
    else if (!strncmp(path, "/mock/stats", 11)) {
        struct rusage used;
        getrusage(RUSAGE_SELF, &used);
        double cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
        sprintf(text, "{\"requests\":%llu,\"streams\":%llu,\"events\":%llu,\"finished\":%llu,\"lost\":%llu,\"cpu_s\":%.6f}",
                num_requests, num_streams, num_events, num_finished, num_lost, cpu_s);
    } else if (strstr(path, "_info") && strstr(path, "_info") < strchr(path, '\r'))
        strcpy(text, "{\"model_path\":\"tiny\",\"tokenizer_path\":\"tiny\",\"served_model_name\":\"tiny\",\"is_generation\":true,"
                     "\"weight_version\":\"default\",\"version\":\"0.5.23\",\"tp_size\":1,\"dp_size\":1,\"status\":\"ready\"}");
    else
        strcpy(text, "{\"status\":\"ok\",\"success\":true}"); /* /ready, /health, /abort_request */
    return answer(fd, text, strlen(text));
}

static const char *header(const char *head, const char *name) {
    const char *at = strcasestr(head, name);
    return at ? at + strlen(name) : NULL;
}

/* Serves one whole request from the buffer. 1: served, 0: more bytes are needed, -1: the connection is over. */
static int serve_one(int fd, connection *c) {
    char *end = memmem(c->in, c->len, "\r\n\r\n", 4);
    if (!end)
        return c->len > HEAD_MAX ? -1 : 0;
    if (strncmp(c->in, "GET /", 5) && strncmp(c->in, "POST /", 6))
        return -1; /* a prober that speaks something else */
    *end = 0; /* the head is a string while it is read */
    const char *length = header(c->in, "\r\ncontent-length:");
    size_t head_size = (size_t)(end - c->in) + 4, body_size = length ? strtoul(length, NULL, 10) : 0;
    if (c->len < head_size + body_size) {
        *end = '\r';
        return 0;
    }
    const char *rid = header(c->in, "\r\nx-headrace-rid: ");
    const char *closing = header(c->in, "\r\nconnection: close");
    c->record = header(c->in, "\r\nx-headrace-record:") != NULL;
    strcpy(c->rid, "chatcmpl-00000000000000000000000000000000");
    if (rid)
        sscanf(rid, "%127[^\r]", c->rid);
    int chats = !strncmp(c->in, "POST /v1/chat/completions ", 26);
    int fine = chats ? chat(fd, c, c->in + head_size, body_size) : small_answer(fd, c->in);
    c->close = closing != NULL;
    c->len -= head_size + body_size;
    memmove(c->in, c->in + head_size + body_size, c->len);
    return fine && !(c->close && !c->streaming) ? 1 : -1;
}

static void readable(int fd) {
    connection *c = &connections[fd];
    for (;;) {
        if (c->capacity - c->len < 65536) {
            c->capacity = c->capacity ? c->capacity * 2 : 131072;
            c->in = realloc(c->in, c->capacity + 1);
        }
        ssize_t n = recv(fd, c->in + c->len, c->capacity - c->len, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            drop(fd);
            return;
        }
        if (n < 0)
            return;
        c->len += (size_t)n;
        int served = 1;
        while (!c->streaming && c->len && (served = serve_one(fd, c)) == 1)
            ;
        if (served < 0) {
            drop(fd);
            return;
        }
        if ((size_t)n < c->capacity / 2)
            return; /* level-triggered: what is left comes again */
    }
}

static void run_due(void) {
    uint64_t now = now_ns();
    while (heap_len && heap[0].due_ns <= now) {
        timer_entry entry = heap_pop();
        connection *c = &connections[entry.at.fd];
        if (c->generation != entry.at.generation || !c->streaming)
            continue;
        if (!stream_next(entry.at.fd, c, now) || (!c->streaming && c->close))
            drop(entry.at.fd);
    }
}

static void arm(void) {
    uint64_t at = heap_len ? heap[0].due_ns : 0;
    if (at == timer_at)
        return;
    timer_at = at;
    struct itimerspec spec = {.it_value = {.tv_sec = (time_t)(at / 1000000000), .tv_nsec = (long)(at % 1000000000)}};
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void accept_all(int listener) {
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= MAX_FDS) {
            close(fd);
            continue;
        }
        int one = 1, size = 400 << 10;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
    }
}

static int listen_on(uint16_t port) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) {
        perror("mock_engine");
        exit(1);
    }
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int argc, char **argv) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct epoll_event events[512];
    out = malloc(out_capacity);
    prompt_ids = malloc(1 << 20);
    for (size_t i = 0; i < 1 << 20; i++)
        prompt_ids[i] = alphabet[(i * 2654435761u >> 16) & 63];
    int listener = listen_on((uint16_t)(argc > 1 ? atoi(argv[1]) : 0));
    epoll_fd = epoll_create1(0);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event);
    event.data.fd = timer_fd;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &event);
    for (;;) {
        arm();
        int n = epoll_wait(epoll_fd, events, 512, -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                accept_all(fd);
            } else if (fd == timer_fd) {
                uint64_t expirations;
                if (read(fd, &expirations, sizeof expirations) > 0)
                    timer_at = 0;
            } else {
                readable(fd);
            }
        }
        run_due();
    }
}
