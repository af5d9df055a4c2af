/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Iprobe that finds nothing, without the MPI: who does something else meanwhile asks again and again, and each answer takes MPIs
 * two to five times as long over a provider as over memory of their own (they ask for a message, and read a queue for the
 * word that there is none).
 *
 * A call that is made again with the same source, tag and communicator is watched, as a receive is (quick.h): if the
 * provider was asked for one message by its match bits, the next such call asks so. If there is none, and nothing lies in the
 * queue that the MPI could read, that is the answer. If there is one, the MPI is asked, and what it says of the sender's rank
 * and the tag is remembered of the sender and the match bits: of the next one that has the same of both the same is said.
 *
 * MPI_Improbe likewise, which takes what MPI_Iprobe has found.
 *
 * With more ranks than cores all is the MPI's, whose provider gives the core to others; and one call in SN_QUICK_PERIOD, and all
 * that are further apart than 2 us.
 *
 * Budget, a call seen before: one look at everything, two or three locks, no call of the MPI.
 */
#ifndef SN_SHIM_PROBED_H
#define SN_SHIM_PROBED_H

#include "quick.h"
#include <stdbool.h>

bool sn_probed_is(const char *name);
/* What stands before this definition of such a name. */
void *sn_probed_stand_in(const char *name, void *definition);

#endif
