//! gswarm over HTTP: the model server, and the front door to a cluster.
