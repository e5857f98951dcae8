/* Opens a plugin, uses and closes it; then a thread that has used it ends, and the process forks. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *use(void *path)
{
    void *plugin = dlopen(path, RTLD_NOW);
    if (plugin == NULL) {
        puts(dlerror());
        return NULL;
    }
    int (*works)(void);
    *(void **)&works = dlsym(plugin, "plugin_works");
    void *result = works != NULL && works() ? path : NULL;
    dlclose(plugin);
    return result;
}

int main(int count, char **words)
{
    pthread_t thread;
    void *result = NULL;
    if (count != 2 || pthread_create(&thread, NULL, use, words[1]) != 0)
        return 2;
    pthread_join(thread, &result);
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    int status = 0;
    waitpid(child, &status, 0);
    return result != NULL && WIFEXITED(status) && WEXITSTATUS(status) == 7 ? 0 : 1;
}
