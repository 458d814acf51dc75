// ${ABOUT}
#ifndef HLO_LIBRARY_${BIG}_HPP
#define HLO_LIBRARY_${BIG}_HPP

#include "${NAME}.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>

namespace ${NAME} {

// A call gave back something else than HLO_OK.
class error : public std::runtime_error {
public:
  explicit error(std::int32_t code) : std::runtime_error(${NAME}_message(code)), code(code) {}
  std::int32_t code;
};

// Throws unless these bytes, the whole file, are weights of this library; a context takes their address.
inline const void *checked_weights(std::span<const std::byte> bytes) {
  if (std::int32_t code = ${NAME}_weights_check(bytes.data(), bytes.size()))
    throw error(code);
  return bytes.data();
}

namespace detail {

struct release {
  void operator()(std::byte *memory) const { ::operator delete(memory, std::align_val_t{HLO_ALIGNMENT}); }
};

using workspace = std::unique_ptr<std::byte[], release>;

inline workspace aligned(std::size_t bytes) {
  return workspace(static_cast<std::byte *>(::operator new(bytes, std::align_val_t{HLO_ALIGNMENT})));
}

} // namespace detail
${ENTRIES}
} // namespace ${NAME}

#endif
