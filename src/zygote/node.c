/* exit.node: what a node that waits ends by (runtimes/node/start.js). process.reallyExit(), the shortest end
 * that node has, first stops its threads one by one and has every library clean up, for a millisecond; the
 * kernel does all of that by itself. By Node-API, which is stable: one build is right for every node. What we
 * need of it is declared here, since its headers come with one node and would have to be those of another. */
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

struct napi_env;
struct napi_value;
struct napi_callback_info;

extern int napi_create_function(struct napi_env *env, const char *name, size_t len,
                                struct napi_value *(*call)(struct napi_env *, struct napi_callback_info *),
                                void *data, struct napi_value **ret);
extern int napi_get_cb_info(struct napi_env *env, struct napi_callback_info *info, size_t *argc,
                            struct napi_value **argv, struct napi_value **ret_this, void **ret_data);
extern int napi_get_value_int32(struct napi_env *env, struct napi_value *value, int32_t *ret);
struct napi_value *napi_register_module_v1(struct napi_env *env, struct napi_value *exports);

static struct napi_value *leave(struct napi_env *env, struct napi_callback_info *info)
{
    struct napi_value *code = NULL;
    size_t count = 1;
    int32_t number = 1;
    (void)napi_get_cb_info(env, info, &count, &code, NULL, NULL);
    (void)napi_get_value_int32(env, code, &number);
    _exit(number);
}

/* The module is one function: the exit code is its argument. */
__attribute__((visibility("default"))) struct napi_value *napi_register_module_v1(struct napi_env *env,
                                                                                  struct napi_value *exports)
{
    struct napi_value *function = NULL;
    return napi_create_function(env, "exit", 4, leave, NULL, &function) ? exports : function;
}
