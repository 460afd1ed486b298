/* Which worker StarPU's dmda gives each of some tasks. Standard input: the number of workers, the number of tasks, and for
 * each task its run time on each worker in microseconds, how many tasks it waits for, and which. Standard output: for each
 * task its worker, and how many had begun before it. Execution is held until all tasks are submitted. Where none waits for
 * another that is when all are placed, so that only the rule decides, and nothing has to take its time; else tasks sleep for
 * as long as they take, since the rule looks at the clock when a task can run. */
#include <starpu.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned workers;
static double *times;
static int *placed;
static int *begun;
static atomic_int counter;
static int sleeps;

/* CPU workers all count as one architecture, so the model is not told which of them is meant. It is asked once for each
 * of them, in their order, before a task is placed: the number of the question is the worker. Tasks are placed by the
 * thread that found them ready. */
static double cost(struct starpu_task *task, struct starpu_perfmodel_arch *arch, unsigned implementation) {
    static _Thread_local size_t last = (size_t)-1;
    static _Thread_local unsigned asked;
    size_t number = (size_t)task->cl_arg;
    (void)arch, (void)implementation;
    if (number != last) {
        last = number;
        asked = 0;
    }
    return times[number * workers + asked++ % workers];
}

static void run(void *buffers[], void *argument) {
    (void)buffers;
    size_t number = (size_t)argument;
    unsigned worker = (unsigned)starpu_worker_get_id();
    placed[number] = (int)worker;
    begun[number] = atomic_fetch_add(&counter, 1);
    if (sleeps) {
        double seconds = times[number * workers + worker] / 1e6;
        struct timespec span = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
        nanosleep(&span, NULL);
    }
}

int main(void) {
    unsigned count;
    if (scanf("%u %u", &workers, &count) != 2) return 2;
    times = malloc(sizeof(double) * workers * count);
    placed = malloc(sizeof(int) * count);
    begun = malloc(sizeof(int) * count);
    unsigned *waits = calloc(count, sizeof(unsigned));
    unsigned **others = calloc(count, sizeof(unsigned *));
    for (size_t i = 0; i < count; i++) {
        for (size_t worker = 0; worker < workers; worker++)
            if (scanf("%lf", &times[i * workers + worker]) != 1) return 2;
        if (scanf("%u", &waits[i]) != 1) return 2;
        others[i] = malloc(sizeof(unsigned) * (waits[i] + 1));
        for (unsigned at = 0; at < waits[i]; at++)
            if (scanf("%u", &others[i][at]) != 1 || others[i][at] >= i) return 2;
        sleeps |= waits[i] > 0;
    }
    struct starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = (int)workers;
    conf.ncuda = 0;
    conf.nopencl = 0;
    conf.sched_policy_name = "dmda";
    if (starpu_init(&conf) != 0) return 3;
    struct starpu_perfmodel model = {.type = STARPU_PER_ARCH, .arch_cost_function = cost, .symbol = "gswarm"};
    struct starpu_codelet codelet = {.cpu_funcs = {run}, .nbuffers = 0, .model = &model, .name = "task"};
    if (starpu_worker_get_count() != workers) return 5;
    starpu_pause();
    struct starpu_task **tasks = malloc(sizeof(struct starpu_task *) * count);
    for (size_t i = 0; i < count; i++) {
        tasks[i] = starpu_task_create();
        tasks[i]->cl = &codelet;
        tasks[i]->cl_arg = (void *)i;
        struct starpu_task *before[waits[i] + 1];
        for (unsigned at = 0; at < waits[i]; at++) before[at] = tasks[others[i][at]];
        if (waits[i] > 0) starpu_task_declare_deps_array(tasks[i], waits[i], before);
    }
    for (size_t i = 0; i < count; i++)
        if (starpu_task_submit(tasks[i]) != 0) return 4;
    starpu_resume();
    starpu_task_wait_for_all();
    for (size_t i = 0; i < count; i++) printf("%d %d\n", placed[i], begun[i]);
    starpu_shutdown();
    return 0;
}
