#pragma once
#include <string>

std::string answer(const std::string &greeting);
