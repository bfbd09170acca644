//! House: config, paths, stores, resources, wiring; the library that people embed.
