// SPDX-License-Identifier: Apache-2.0
// A C extension that calls the function it is given: at once, by way of the GIL as libraries do that work
// without it, and from a thread of its own.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>

#define NOINLINE __attribute__((noinline))
/* Keeps a call before it from becoming a jump, which would lose the frame. */
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

static NOINLINE PyObject *call_back_deeper(PyObject *function)
{
	PyObject *result = PyObject_CallObject(function, NULL);

	KEEP_FRAME();
	return result;
}

static PyObject *call(PyObject *module, PyObject *function)
{
	volatile char block[3000];

	(void)module;
	block[0] = 1;
	PyObject *result = call_back_deeper(function);
	block[1] = block[0];
	return result;
}

static NOINLINE PyObject *take_gil_and_call(PyObject *function)
{
	PyGILState_STATE state = PyGILState_Ensure();
	PyObject *result = call_back_deeper(function);

	PyGILState_Release(state);
	return result;
}

static PyObject *call_without_gil(PyObject *module, PyObject *function)
{
	PyThreadState *state = PyEval_SaveThread();
	PyObject *result = take_gil_and_call(function);

	(void)module;
	PyEval_RestoreThread(state);
	return result;
}

static void *run_thread(void *function)
{
	void *result = take_gil_and_call(function);

	KEEP_FRAME();
	return result;
}

static PyObject *call_in_thread(PyObject *module, PyObject *function)
{
	PyThreadState *state = PyEval_SaveThread();
	pthread_t thread;
	void *result = NULL;
	int rc = pthread_create(&thread, NULL, run_thread, function);

	(void)module;
	if (!rc)
		pthread_join(thread, &result);
	PyEval_RestoreThread(state);
	return rc ? PyErr_NoMemory() : result;
}

static PyMethodDef methods[] = {
	{ "call", call, METH_O, NULL },
	{ "call_without_gil", call_without_gil, METH_O, NULL },
	{ "call_in_thread", call_in_thread, METH_O, NULL },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT, "calls_back", NULL, -1, methods, NULL, NULL, NULL, NULL
};

PyMODINIT_FUNC PyInit_calls_back(void)
{
	return PyModule_Create(&definition);
}
