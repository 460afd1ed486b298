/* Which worker StarPU's dmda gives each of some independent tasks. Standard input: the number of workers, the number of
 * tasks, and for each task its run time on each worker in microseconds. Standard output: the worker of each task.
 * Execution is held until all tasks are placed, so that only the rule decides. */
#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned workers;
static double *times;
static int *placed;

/* CPU workers all count as one architecture, so the model is not told which of them is meant. It is asked once for each
 * of them, in their order, before a task is placed: the number of the question is the worker. */
static double cost(struct starpu_task *task, struct starpu_perfmodel_arch *arch, unsigned implementation) {
    static size_t last = (size_t)-1;
    static unsigned asked;
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
    placed[(size_t)argument] = starpu_worker_get_id();
}

int main(void) {
    unsigned count;
    if (scanf("%u %u", &workers, &count) != 2) return 2;
    times = malloc(sizeof(double) * workers * count);
    placed = malloc(sizeof(int) * count);
    for (size_t i = 0; i < (size_t)workers * count; i++)
        if (scanf("%lf", &times[i]) != 1) return 2;
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
    for (size_t i = 0; i < count; i++) {
        struct starpu_task *task = starpu_task_create();
        task->cl = &codelet;
        task->cl_arg = (void *)i;
        if (starpu_task_submit(task) != 0) return 4;
    }
    starpu_resume();
    starpu_task_wait_for_all();
    for (size_t i = 0; i < count; i++) printf("%d\n", placed[i]);
    starpu_shutdown();
    return 0;
}
