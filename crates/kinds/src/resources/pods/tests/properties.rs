//! What holds for every pod.
