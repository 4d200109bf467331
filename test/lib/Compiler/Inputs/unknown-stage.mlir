module attributes {pyjit.stage = "fused"} {
}
