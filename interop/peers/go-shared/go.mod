module oxds/interop/peers-shared

go 1.17
