use super::*;

#[test]
fn the_key_is_the_engines_and_stays() {
    let engine = Engine::default();
    assert_eq!(engine_key(&engine), engine_key(&Engine::default()));
    assert_eq!(engine_key(&engine).len(), 16);
    let mut config = wasmtime::Config::new();
    config.epoch_interruption(true);
    assert_ne!(engine_key(&engine), engine_key(&Engine::new(&config).unwrap()));
}

#[test]
fn digests_are_those_of_sha256() {
    assert_eq!(hex_digest(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
