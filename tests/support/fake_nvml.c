/* A libnvidia-ml.so.1 whose answers stand in a file, for machines without a GPU.
 *
 * FAKE_NVML names the file: one KEY=VALUE a line, read again whenever it was replaced.
 * tests/support/fake_nvml.py writes it and lists the keys. Built against NVIDIA's own
 * nvml.h, so that a wrong signature or structure does not compile.
 */
#define _GNU_SOURCE
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <errno.h>
#include <nvml.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST_GPUS 16
#define MOST_MIG 8
#define NODE(gpu, mig) ((gpu) * (MOST_MIG + 1) + (mig) + 1)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *script;
static struct timespec written;
static ino_t inode;
static int delivered = -1;
static char nodes[MOST_GPUS * (MOST_MIG + 1)];
/* A handle is an address in here: of a GPU, or of one of its MIG devices. */

/* The script starts with a newline, so that "\nKEY=" finds whole keys. */
static void reload(void)
{
    const char *path = getenv("FAKE_NVML");
    struct stat now;
    FILE *file;
    if (!path || stat(path, &now))
        return;
    if (script && now.st_ino == inode && now.st_mtim.tv_sec == written.tv_sec &&
        now.st_mtim.tv_nsec == written.tv_nsec)
        return;
    file = fopen(path, "r");
    if (!file)
        return;
    script = realloc(script, (size_t)now.st_size + 2);
    script[0] = '\n';
    script[1 + fread(script + 1, 1, (size_t)now.st_size, file)] = 0;
    fclose(file);
    written = now.st_mtim;
    inode = now.st_ino;
}

static int get(char *value, size_t size, const char *format, ...)
{
    char key[128];
    const char *found;
    va_list arguments;
    key[0] = '\n';
    va_start(arguments, format);
    vsnprintf(key + 1, sizeof key - 2, format, arguments);
    va_end(arguments);
    strcat(key, "=");
    pthread_mutex_lock(&lock);
    reload();
    found = script ? strstr(script, key) : NULL;
    if (found) {
        found += strlen(key);
        snprintf(value, size, "%.*s", (int)strcspn(found, "\n"), found);
    }
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

static int number(unsigned long long *value, const char *key, int gpu)
{
    char text[64];
    if (!get(text, sizeof text, "%d.%s", gpu, key))
        return 0;
    *value = strtoull(text, NULL, 0);
    return 1;
}

/* What every call does first: hang, or fail, if the script says so. */
static nvmlReturn_t enter(const char *function)
{
    char text[64];
    while (get(text, sizeof text, "hang.%s", function))
        usleep(20000);
    if (get(text, sizeof text, "error.%s", function))
        return (nvmlReturn_t)atoi(text);
    return NVML_SUCCESS;
}

static nvmlDevice_t device_of(int gpu, int mig)
{
    return (nvmlDevice_t)(void *)&nodes[NODE(gpu, mig)];
}

static int gpu_of(nvmlDevice_t device)
{
    return (int)((char *)(void *)device - nodes) / (MOST_MIG + 1);
}

/* -1: the whole GPU */
static int mig_of(nvmlDevice_t device)
{
    return (int)((char *)(void *)device - nodes) % (MOST_MIG + 1) - 1;
}

static nvmlReturn_t enter_device(const char *function, nvmlDevice_t device)
{
    unsigned long long lost = 0;
    nvmlReturn_t entered = enter(function);
    if (entered != NVML_SUCCESS)
        return entered;
    number(&lost, "lost", gpu_of(device));
    return lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

#define ENTER                                                                          \
    do {                                                                               \
        nvmlReturn_t entered = enter(__func__);                                        \
        if (entered != NVML_SUCCESS)                                                   \
            return entered;                                                            \
    } while (0)
#define ENTER_DEVICE                                                                   \
    do {                                                                               \
        nvmlReturn_t entered = enter_device(__func__, device);                         \
        if (entered != NVML_SUCCESS)                                                   \
            return entered;                                                            \
    } while (0)

nvmlReturn_t nvmlInit_v2(void)
{
    char text[32];
    ENTER;
    if (!getenv("FAKE_NVML"))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    /* Only what happens from now on is an event for this process. */
    delivered = get(text, sizeof text, "xids") ? atoi(text) : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    return nvmlInit_v2();
}

nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }

const char *nvmlErrorString(nvmlReturn_t result)
{
    (void)result;
    return "an error of the fake";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    ENTER;
    snprintf(version, length, "%s", "580.00.01");
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    ENTER;
    *version = 13000;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    char text[16];
    ENTER;
    *count = get(text, sizeof text, "count") ? (unsigned int)atoi(text) : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    unsigned long long lost = 0;
    ENTER;
    number(&lost, "lost", (int)index);
    if (lost)
        return NVML_ERROR_GPU_IS_LOST;
    *device = device_of((int)index, -1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    ENTER_DEVICE;
    *index = (unsigned int)gpu_of(device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    int gpu = gpu_of(device), mig = mig_of(device);
    ENTER_DEVICE;
    if (mig >= 0 ? get(uuid, length, "%d.mig.%d.uuid", gpu, mig)
                 : get(uuid, length, "%d.uuid", gpu))
        return NVML_SUCCESS;
    return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    ENTER_DEVICE;
    if (!get(name, length, "%d.name", gpu_of(device)))
        snprintf(name, length, "Fake GPU");
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    ENTER_DEVICE;
    memset(pci, 0, sizeof *pci);
    if (!get(pci->busId, sizeof pci->busId, "%d.bus", gpu_of(device)))
        return NVML_ERROR_NOT_SUPPORTED;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%s", pci->busId + 4);
    return NVML_SUCCESS;
}

static nvmlReturn_t sizes(nvmlDevice_t device, unsigned long long *total,
                          unsigned long long *used, unsigned long long *reserved)
{
    char key[48];
    int gpu = gpu_of(device), mig = mig_of(device);
    snprintf(key, sizeof key, mig < 0 ? "%s" : "mig.%2$d.%1$s", "total", mig);
    if (!number(total, key, gpu))
        return NVML_ERROR_NOT_SUPPORTED;
    snprintf(key, sizeof key, mig < 0 ? "%s" : "mig.%2$d.%1$s", "used", mig);
    *used = 0;
    number(used, key, gpu);
    snprintf(key, sizeof key, mig < 0 ? "%s" : "mig.%2$d.%1$s", "reserved", mig);
    *reserved = 0;
    number(reserved, key, gpu);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    unsigned long long reserved;
    nvmlReturn_t told;
    ENTER_DEVICE;
    told = sizes(device, &memory->total, &memory->used, &reserved);
    memory->used += reserved;
    memory->free = memory->total - memory->used;
    return told;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    nvmlReturn_t told;
    ENTER_DEVICE;
    told = sizes(device, &memory->total, &memory->used, &memory->reserved);
    memory->free = memory->total - memory->used - memory->reserved;
    return told;
}

static nvmlReturn_t one(nvmlDevice_t device, const char *key, unsigned int *value)
{
    unsigned long long found;
    if (mig_of(device) >= 0 || !number(&found, key, gpu_of(device)))
        return NVML_ERROR_NOT_SUPPORTED;
    *value = (unsigned int)found;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    ENTER_DEVICE;
    rates->memory = 0;
    return one(device, "utilization", &rates->gpu);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                      unsigned int *temperature)
{
    ENTER_DEVICE;
    (void)sensor;
    return one(device, "temperature", temperature);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    ENTER_DEVICE;
    return one(device, "temperature", (unsigned int *)&temperature->temperature);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power)
{
    ENTER_DEVICE;
    return one(device, "power", power);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *limit)
{
    ENTER_DEVICE;
    return one(device, "power_limit", limit);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                    unsigned int *clock)
{
    ENTER_DEVICE;
    return one(device, type == NVML_CLOCK_MEM ? "clock.memory" : "clock.sm", clock);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                       unsigned int *clock)
{
    ENTER_DEVICE;
    return one(device, type == NVML_CLOCK_MEM ? "clock_limit.memory" : "clock_limit.sm",
               clock);
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                 unsigned long long *energy)
{
    ENTER_DEVICE;
    return number(energy, "energy", gpu_of(device)) ? NVML_SUCCESS
                                                    : NVML_ERROR_NOT_SUPPORTED;
}

/* N.field.ID: only what stands there is supported */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                      nvmlFieldValue_t *values)
{
    char key[32];
    ENTER_DEVICE;
    for (int i = 0; i < count; i++) {
        unsigned long long found = 0;
        snprintf(key, sizeof key, "field.%u", values[i].fieldId);
        values[i].nvmlReturn = number(&found, key, gpu_of(device))
                                   ? NVML_SUCCESS
                                   : NVML_ERROR_NOT_SUPPORTED;
        values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        values[i].value.ullVal = found;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int *value)
{
    ENTER_DEVICE;
    return one(device, "replays", value);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *value)
{
    ENTER_DEVICE;
    return one(device, "lanes", value);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *value)
{
    ENTER_DEVICE;
    return one(device, "lanes_most", value);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                    unsigned long long *reasons)
{
    ENTER_DEVICE;
    return number(reasons, "throttle", gpu_of(device)) ? NVML_SUCCESS
                                                       : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                         nvmlEccCounterType_t counter,
                                         unsigned long long *count)
{
    char key[48];
    ENTER_DEVICE;
    snprintf(key, sizeof key, "ecc.%s.%s",
             counter == NVML_VOLATILE_ECC ? "volatile" : "aggregate",
             type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? "corrected" : "uncorrected");
    return number(count, key, gpu_of(device)) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected,
                                       unsigned int *uncorrected, unsigned int *pending,
                                       unsigned int *failed)
{
    char text[64];
    ENTER_DEVICE;
    if (!get(text, sizeof text, "%d.rows", gpu_of(device)) ||
        sscanf(text, "%u,%u,%u,%u", corrected, uncorrected, pending, failed) != 4)
        return NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* PID:BYTES:INSTANCE, separated by commas */
static nvmlReturn_t processes(nvmlDevice_t device, const char *key, unsigned int *count,
                              nvmlProcessInfo_t *infos)
{
    char text[8192], living[8], *rest = text, *part;
    unsigned int found = 0, room = *count;
    if (!get(text, sizeof text, "%d.%s", gpu_of(device), key))
        text[0] = 0;
    while ((part = strsep(&rest, ","))) {
        unsigned long long bytes;
        unsigned int pid, instance;
        if (sscanf(part, "%u:%llu:%u", &pid, &bytes, &instance) != 3)
            continue;
        if (get(living, sizeof living, "living") && kill((pid_t)pid, 0) && errno == ESRCH)
            continue;
        if (infos && found < room)
            infos[found] = (nvmlProcessInfo_t){pid, bytes, instance, 0xFFFFFFFF};
        found++;
    }
    *count = found;
    return found > room || (found && !infos) ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
                                                     unsigned int *count,
                                                     nvmlProcessInfo_t *infos)
{
    ENTER_DEVICE;
    return processes(device, "processes", count, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device,
                                                      unsigned int *count,
                                                      nvmlProcessInfo_t *infos)
{
    ENTER_DEVICE;
    return processes(device, "graphics", count, infos);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current,
                                  unsigned int *pending)
{
    nvmlReturn_t told;
    ENTER_DEVICE;
    told = one(device, "mig", current);
    *current = *current > 0;
    *pending = *current;
    return told;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    ENTER_DEVICE;
    *count = MOST_MIG - 1;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t *mig)
{
    unsigned long long total;
    char key[32];
    ENTER_DEVICE;
    snprintf(key, sizeof key, "mig.%u.total", index);
    if (index >= MOST_MIG || !number(&total, key, gpu_of(device)))
        return NVML_ERROR_NOT_FOUND;
    *mig = device_of(gpu_of(device), (int)index);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is)
{
    ENTER_DEVICE;
    *is = mig_of(device) >= 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    ENTER_DEVICE;
    *id = (unsigned int)mig_of(device) + 1;
    return mig_of(device) < 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    ENTER_DEVICE;
    *id = 0;
    return mig_of(device) < 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    ENTER;
    *set = (nvmlEventSet_t)(void *)nodes;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      nvmlEventSet_t set)
{
    ENTER_DEVICE;
    (void)types;
    (void)set;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    (void)set;
    return NVML_SUCCESS;
}

/* xids=N, and xid.1 to xid.N as GPU:CODE */
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
                                 unsigned int timeout_ms)
{
    struct timespec began, now;
    char text[32];
    int gpu, code;
    (void)set;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (;;) {
        long long passed;
        ENTER;
        if (get(text, sizeof text, "xid.%d", delivered + 1) &&
            sscanf(text, "%d:%d", &gpu, &code) == 2) {
            delivered++;
            *data = (nvmlEventData_t){device_of(gpu, -1), nvmlEventTypeXidCriticalError,
                                      (unsigned long long)code, 0xFFFFFFFF, 0xFFFFFFFF};
            return NVML_SUCCESS;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        passed = (now.tv_sec - began.tv_sec) * 1000LL +
                 (now.tv_nsec - began.tv_nsec) / 1000000LL;
        if (passed >= (long long)timeout_ms)
            return NVML_ERROR_TIMEOUT;
        usleep(timeout_ms - passed < 50 ? (useconds_t)(timeout_ms - passed) * 1000 : 50000);
    }
}
