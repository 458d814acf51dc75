#ifndef HLO_ABI_1
#define HLO_ABI_1

/* What all libraries that hlotool builds have in common. */

#include <stddef.h>
#include <stdint.h>

#define HLO_ABI 1
#define HLO_ALIGNMENT 64 /* of workspaces and weights; arrays may lie anywhere */

/* What a call gives back; NAME_message(code) says it in words. */
enum {
${CODES}
  HLO_MISSING = ${MISSING} /* and the number of a function that the context does not have */
};

/* An argument or a result: dense and row-major.  pred is a byte, 0 or 1; s1 to u4 are a byte for each element; f16,
   bf16 and the f8 types are their bits; c64 and c128 are pairs, the real part first. */
typedef struct hlo_array {
  const char *name;
  const char *type;          /* as HLO calls it: "f32" */
  const int64_t *dimensions; /* null where there are none */
  uint64_t bytes;
  uint32_t rank;
  uint32_t element_bytes;
  int32_t alias;             /* of a result: the argument whose memory it takes; of an argument: the result; or -1 */
  uint32_t overwritten;      /* whether a call writes to this argument */
} hlo_array;

/* A place where the code calls a function of its context. */
typedef struct hlo_call {
  const char *name;   /* of the instruction */
  const char *target; /* of a custom call, or the opcode */
  const char *text;   /* the instruction with all of its attributes */
  const hlo_array *operands;
  const hlo_array *results;
  uint32_t operand_count;
  uint32_t result_count;
  uint32_t function;  /* its number among those of the context */
} hlo_call;

/* Does what a call asks for: `arrays` are the operands and then the results.  Anything but 0 ends the execution. */
typedef int32_t hlo_function(void *user, const hlo_call *call, void *const *arrays);

/* Does the tasks begin <= t < end of some work. */
typedef void hlo_task(void *arguments, int64_t begin, int64_t end);

/* What a caller offers; all of it may be null, and so may a pointer to it. */
typedef struct hlo_context {
  const void *weights;                 /* the whole file, as NAME_weights_check took it */
  uint64_t *random;                    /* the state of random numbers, NAME_RANDOM at first; else each call begins there */
  void *user;                          /* for functions and poll */
  hlo_function *const *functions;      /* NAME_FUNCTIONS of them */
  int32_t (*poll)(void *user);         /* asked now and then, by any thread; anything but 0 stops the call */
  void *threads;                       /* for the two below */
  /* Calls task(arguments, ...) on ranges that make up 0 <= t < tasks, in any order, on any threads, and returns when
     all are done.  Null: the calling thread does it.  The second one is for work so short that threads which sleep are
     not worth waking. */
  void (*parallel_for)(void *threads, hlo_task *task, void *arguments, int64_t tasks);
  void (*parallel_for_short)(void *threads, hlo_task *task, void *arguments, int64_t tasks);
} hlo_context;

/* Runs an entry.  Any number of threads may be in it, each with a workspace of its own.  Results overlap neither each
   other nor arguments; one with an alias has the address of that argument, or is null. */
typedef int32_t hlo_run(const void *const *arguments, void *const *results, void *workspace, size_t workspace_bytes,
                        const hlo_context *context);

typedef struct hlo_entry {
  const char *name;
  hlo_run *run;
  const hlo_array *arguments;
  const hlo_array *results;
  uint32_t argument_count;
  uint32_t result_count;
  uint64_t workspace_bytes;
} hlo_entry;

typedef struct hlo_library {
  uint32_t abi; /* HLO_ABI */
  uint32_t entry_count;
  const hlo_entry *entries;
  const char *const *functions; /* what contexts have to offer: targets of custom calls, or opcodes */
  uint32_t function_count;
  uint32_t random_words;        /* of the state of random numbers; 0: there are none */
  uint64_t weights_bytes;       /* of the file with weights; 0: there is none */
  const uint64_t *random;       /* the first state */
  const char *hlotool;          /* its version */
  const void *metadata;         /* what `hlotool inspect` reads */
} hlo_library;

#endif
