//! Behaviour of the guard and of the client.
